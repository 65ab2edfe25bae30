"""The innermost loop of all products, written as vector instructions.

From loops over rows of a matrix a compiler makes code that writes every sum to memory and reads it again four products
later. Here the sums of a few rows and of a panel of 32 columns stay in registers until they are complete. The panel is
contiguous and read from its beginning to its end: once, or in several passes where there are more sums than registers,
each with a share of the columns. LLVM translates vectors of 32 numbers into the processor's own.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from pipeline.engine.dot import choose_dot
from pipeline.engine.operands import Operands
from pipeline.engine.reading import COLUMNS, OFFSET, TOGETHER

_FEATURES: str = cpu_target.target_context.codegen().magic_tuple()[2]
REGISTERS, _BITS = (32, 512) if "+avx512f" in _FEATURES else (16, 256)
MOST_ROWS = 7 if REGISTERS == 32 else 3
"""Rows that are multiplied at a time: as many as there are registers for their sums and products, and for operands."""
_DOT = choose_dot(_FEATURES)
MOST_ROUNDED_ROWS = min(MOST_ROWS, (REGISTERS - 2) // (COLUMNS // _DOT.lanes + _DOT.registers))
"""Likewise of rows of bytes."""
_ORDER = (1, 0, 2, 3)  # of products that are summed together; it decides the bits of all results


def _declare(typing_context: Any, rows: Any, x: Any, of_rows: Any, row: Any, weights: Any, panel: Any, scale: Any,
             bias: Any, out: Any, begin: Any, end: Any, fetches: Any) -> Any:
    """Write some rows of x (M, K) times a panel of a matrix (K, N), * scale + bias, into their place in out (M, N).

    Of exact weights, a call may add a part of all products, those of the matrix's rows from `begin` to before `end`.
    Until the last part is added, `out` has the sums so far.

    Args:
        rows: from 1 to `MOST_ROWS`; there is code for each number, but for a literal only its own.
        x: floats; or signed bytes where the weights are rounded.
        of_rows: (M, 2), the factor and the sum of each row of bytes; not read for rows of floats.
        row: the first row.
        weights: all panels; floats, or unsigned bytes (`reading.Panels`).
        panel: its index.
        scale, bias: (N,).
        out: floats.
        begin, end: multiples of `TOGETHER`; 0 and K where the weights are rounded.
        fetches: whether the calls for all rows together fetch as many numbers as these products read, those that follow
            in memory, which will be read next.

    Raises:
        TypingError: an array is not C-contiguous; the instructions do not read its strides.
    """
    arrays = {"x": x, "of_rows": of_rows, "weights": weights, "scale": scale, "bias": bias, "out": out}
    for name, array in arrays.items():
        if array.layout != "C":
            raise TypingError(f"multiply: {name} is {array}; it must be C-contiguous")
    return types.void(rows, x, of_rows, row, weights, panel, scale, bias, out, begin, end, fetches), _write


multiply: Any = intrinsic(prefer_literal=True)(_declare)


def _write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
    """The instructions of `multiply`."""
    rows = signature.args[0]
    write = _write_rounded if isinstance(signature.args[1].dtype, types.Integer) else _write_exact

    def write_for(number: int) -> None:
        write(Operands(number, context, builder, signature, arguments))

    if isinstance(rows, types.IntegerLiteral):
        write_for(rows.literal_value)
    else:
        end = builder.append_basic_block("multiplied")
        switch = builder.switch(arguments[0], end)
        for number in range(1, MOST_ROWS + 1):
            block = builder.append_basic_block(f"rows_{number}")
            switch.add_case(ir.Constant(arguments[0].type, number), block)
            builder.position_at_end(block)
            write_for(number)
            builder.branch(end)
        builder.position_at_end(end)
    return context.get_dummy_value()


def _write_exact(tile: Operands) -> None:
    """Add four products at a time to each sum, in the same order for any number of rows."""
    builder = tile.builder
    columns = COLUMNS
    while 2 * tile.rows * columns * tile.bits > REGISTERS * _BITS:  # all sums, and the products to be added to them
        columns //= 2
    vector = ir.VectorType(tile.number, columns)
    totals = [cgutils.alloca_once(builder, vector) for _ in range(tile.rows)]  # LLVM keeps them in registers
    for first in range(0, COLUMNS, columns):
        tile.begin(totals, first)
        with tile.steps(first // columns, COLUMNS // columns) as k:
            products: list[Any] = [None] * tile.rows
            for ahead in _ORDER:
                place = builder.add(k, tile.index(ahead))
                weights = tile.load(vector, tile.panel,
                                    builder.add(builder.mul(place, tile.index(COLUMNS)), tile.index(first)))
                for r, x_row in enumerate(tile.x_rows):
                    same = tile.spread(vector, builder.load(builder.gep(x_row, [place])))
                    products[r] = (builder.fmul(same, weights) if products[r] is None
                                   else tile.multiply_add(same, weights, products[r]))
            for total, product in zip(totals, products, strict=True):
                builder.store(builder.fadd(builder.load(total), product), total)
        tile.end(totals, first)


def _write_rounded(tile: Operands) -> None:
    """Multiply and add integers, which has no rounding errors: the same on every processor.

    Where sums contain the weights' `OFFSET`, this times the sum of the row's numbers is subtracted.
    """
    builder, number = tile.builder, ir.IntType(32)
    lanes = _DOT.lanes
    vector, parts = ir.VectorType(number, lanes), COLUMNS // lanes
    nothing = ir.Constant(vector, None)
    totals = [[cgutils.alloca_once_value(builder, nothing) for _ in range(parts)] for _ in range(tile.rows)]
    with tile.steps(0, 1) as k:
        fours = [builder.bitcast(builder.gep(x_row, [k]), number.as_pointer()) for x_row in tile.x_rows]
        numbers = [tile.spread(vector, builder.load(four, align=1)) for four in fours]
        for part in range(parts):
            place = builder.add(builder.mul(k, tile.index(COLUMNS)), tile.index(part * lanes * TOGETHER))
            weights = tile.load(vector, tile.panel, place)
            for row, total in zip(numbers, totals, strict=True):
                builder.store(_DOT.add(builder, builder.load(total[part]), weights, row), total[part])
    factors = [builder.load(factor) for factor in tile.factors]
    sums = [[builder.load(part) for part in total] for total in totals]
    if _DOT.offset:
        for r, place in enumerate(tile.sums):
            shift = tile.spread(vector, builder.mul(builder.fptosi(builder.load(place), number), number(OFFSET)))
            sums[r] = [builder.sub(total, shift) for total in sums[r]]
    for part in range(parts):
        tile.store([builder.sitofp(total[part], ir.VectorType(tile.number, lanes)) for total in sums], part * lanes,
                   factors)
