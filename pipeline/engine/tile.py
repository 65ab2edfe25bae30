"""The innermost loop of all products, written as vector instructions.

From loops over rows of a matrix a compiler makes code that writes every sum to memory and reads it again four products
later. Here the sums of a few rows and of a panel of 32 columns stay in registers until they are complete. The panel is
contiguous and read from its beginning to its end, once, or in parts where there are more sums than registers. LLVM
translates vectors of 32 numbers into the processor's own.

The weights of a large model come from memory, which is as much work as multiplying them by ten rows. So that both
happen at once, what comes next is fetched while this is multiplied, a share of it by every group of rows. Where a few
rows need several passes over a panel, it is read in parts (`depth`), which the nearest cache holds for all passes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from pipeline.compiled import njit
from pipeline.engine.dot import choose_dot
from pipeline.engine.reading import COLUMNS, OFFSET, TOGETHER

_FEATURES: str = cpu_target.target_context.codegen().magic_tuple()[2]
_REGISTERS, _BITS = (32, 512) if "+avx512f" in _FEATURES else (16, 256)
MOST_ROWS = 7 if _REGISTERS == 32 else 4
"""Rows that are multiplied at a time: as many as there are registers for their sums and products."""
_ORDER = (1, 0, 2, 3)  # of products that are summed together; it decides the bits of all results
_ALONE = 4 if _REGISTERS == 32 else 2  # rows up to which the processor reads ahead far enough by itself
_PART = 128  # rows of a matrix that are 16 KB of a panel of float32
_WIDE = 512  # rows and columns from which a matrix belongs to a model that no cache holds
_LINE = 64  # bytes


def _declare(typing_context: Any, rows: Any, x: Any, factors: Any, row: Any, weights: Any, panel: Any, scale: Any,
             bias: Any, out: Any, begin: Any, end: Any) -> Any:
    """Write some rows of x (M, K) times a panel of a matrix (K, N), * scale + bias, into their place in out (M, N).

    Of exact weights, a call may add a part of all products, those of the matrix's rows from `begin` to before `end`.
    Until the last part is added, `out` has the sums so far.

    Args:
        rows: from 1 to `MOST_ROWS`; there is code for each number, but for a literal only its own.
        x: floats; or signed bytes where the weights are rounded.
        factors: (M,), of rows of bytes; not read for rows of floats.
        row: the first row.
        weights: all panels; floats, or unsigned bytes (`reading.Panels`).
        panel: its index.
        scale, bias: (N,).
        out: floats.
        begin, end: multiples of `TOGETHER`; 0 and K where the weights are rounded.

    Raises:
        TypingError: an array other than the factors is not C-contiguous; the instructions do not read its strides.
    """
    for name, array in {"x": x, "weights": weights, "scale": scale, "bias": bias, "out": out}.items():
        if array.layout != "C":
            raise TypingError(f"multiply: {name} is {array}; it must be C-contiguous")
    return types.void(rows, x, factors, row, weights, panel, scale, bias, out, begin, end), _write


multiply: Any = intrinsic(prefer_literal=True)(_declare)


@njit(cache=True, nogil=True)
def depth(M: int, K: int, N: int) -> int:
    """The rows of a matrix (K, N) of floats that are multiplied by M rows at a time, at least 1.

    All, unless the matrix comes from memory and a few rows need several passes over a panel, as they do if their sums
    of 32 columns are too many for the registers. With registers of 512 bits, up to seven rows need one pass, and parts
    have not been tried.
    """
    in_parts = _REGISTERS == 16 and K >= _WIDE and N >= _WIDE and _ALONE < M <= 2 * MOST_ROWS
    return _PART if in_parts else max(K, 1)


def _write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
    """The instructions of `multiply`."""
    rows = signature.args[0]
    write = _write_rounded if isinstance(signature.args[1].dtype, types.Integer) else _write_exact

    def write_for(number: int) -> None:
        write(_Tile(number, context, builder, signature, arguments))

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


class _Tile:
    """The operands of `multiply` as addresses and sizes, and the instructions that both kinds of weights share."""

    def __init__(self, rows: int, context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> None:
        kinds = signature.args
        self.builder, self._context, self.rows = builder, context, rows
        self.number, self.bits = context.get_value_type(kinds[8].dtype), kinds[8].dtype.bitwidth
        x, factors, weights, scale, bias, out = (
            context.make_array(kinds[i])(context, builder, arguments[i]) for i in (1, 2, 4, 6, 7, 8))
        row, panel = (context.cast(builder, arguments[i], kinds[i], types.intp) for i in (3, 5))
        places = [builder.add(row, self.index(r)) for r in range(rows)]
        (self._M, self.K), (_, self._N) = (cgutils.unpack_tuple(builder, one.shape) for one in (x, out))
        begin = builder.mul(panel, self.index(COLUMNS))
        self._begin, self._end = (context.cast(builder, arguments[i], kinds[i], types.intp) for i in (9, 10))
        self._depth = builder.sub(self._end, self._begin)
        self.panel = builder.gep(weights.data, [builder.add(builder.mul(begin, self.K),
                                                            builder.mul(self._begin, self.index(COLUMNS)))])
        self.x_rows = [builder.gep(x.data, [builder.add(builder.mul(place, self.K), self._begin)]) for place in places]
        self.factors = [builder.gep(factors.data, [place]) for place in places]
        self._out = [builder.gep(out.data, [builder.add(builder.mul(place, self._N), begin)]) for place in places]
        self._scale, self._bias = (builder.gep(one.data, [begin]) for one in (scale, bias))
        self._remaining, self._row = builder.sub(self._N, begin), row
        self._lines = TOGETHER * COLUMNS * kinds[4].dtype.bitwidth // 8 // _LINE

    def index(self, value: int) -> ir.Constant:
        return self._context.get_constant(types.intp, value)

    def load(self, vector: ir.VectorType, base: ir.Value, place: ir.Value) -> ir.Value:
        """Consecutive numbers of an array, from an index on."""
        source = self.builder.bitcast(self.builder.gep(base, [place]), vector.as_pointer())
        return self.builder.load(source, align=1)

    @contextmanager
    def steps(self, part: int, parts: int) -> Iterator[ir.Value]:
        """A loop over a part of the panel, `TOGETHER` numbers of a column at a time, that fetches from the next part.

        Args:
            part, parts: which of all passes over this part it is.

        Yields:
            The index of the first of these numbers.
        """
        builder = self.builder
        steps = builder.sdiv(self._depth, self.index(TOGETHER))
        first, lines = self._share(part, parts)
        begin = builder.mul(builder.mul(steps, builder.add(self.index(self._lines), first)), self.index(_LINE))
        share = builder.gep(builder.bitcast(self.panel, ir.IntType(8).as_pointer()), [begin])
        with cgutils.for_range_slice(builder, self.index(0), self._depth, self.index(TOGETHER)) as (k, step):
            fetched = builder.mul(step, lines)
            with cgutils.for_range(builder, lines) as loop:
                line = builder.mul(builder.add(fetched, loop.index), self.index(_LINE))
                self._fetch(builder.gep(share, [line]))
            yield k

    def _share(self, part: int, parts: int) -> tuple[ir.Value, ir.Value]:
        """The share of a part that one of all passes over the part before it fetches, in lines per step of its loop.

        Returns:
            What the passes before it fetch, and its own share, 0 where that is no gain.
        """
        builder = self.builder
        passes = builder.mul(self._M, self.index(parts))  # counted by rows
        before = builder.add(builder.mul(self._row, self.index(parts)), self.index(self.rows * part))
        own = builder.add(self.index(self.rows * self._lines), builder.sub(passes, self.index(1)))  # to round up
        wide = builder.and_(*(builder.icmp_signed(">=", size, self.index(_WIDE)) for size in (self.K, self._N)))
        wide = builder.and_(wide, builder.icmp_signed(">", self._M, self.index(_ALONE)))
        return (builder.sdiv(builder.mul(before, self.index(self._lines)), passes),
                builder.select(wide, builder.sdiv(own, passes), self.index(0)))

    def _fetch(self, address: ir.Value) -> None:
        """Begin to read a line into the nearest cache; an address without memory does nothing."""
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(ir.VoidType(), [address.type, number, number, number]),
            "llvm.prefetch.p0")
        reading, nearest, data = number(0), number(3), number(1)
        self.builder.call(function, [address, reading, nearest, data])

    def spread(self, vector: ir.VectorType, value: ir.Value) -> ir.Value:
        """A number in all lanes."""
        undefined, first = ir.Constant(vector, ir.Undefined), ir.VectorType(ir.IntType(32), vector.count)
        one = self.builder.insert_element(undefined, value, self.index(0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(first, None))

    def begin(self, totals: Sequence[ir.Value], first: int) -> None:
        """Set the sums of every row to 0 or, after the first part of the panel, to those so far.

        Args:
            totals: addresses of a vector per row.
            first: their first column in the panel.
        """
        builder, vector = self.builder, totals[0].type.pointee
        with builder.if_else(builder.icmp_signed("==", self._begin, self.index(0))) as (whole, further):
            with whole:
                for total in totals:
                    builder.store(ir.Constant(vector, None), total)
            with further:
                for total, out in zip(totals, self._out, strict=True):
                    builder.store(self._load_columns(out, vector, first), total)

    def end(self, totals: Sequence[ir.Value], first: int) -> None:
        """Write the sums of every row: complete after the last part of the panel, else those so far; see `begin`."""
        builder = self.builder
        sums = [builder.load(total) for total in totals]
        with builder.if_else(builder.icmp_signed("==", self._end, self.K)) as (complete, so_far):
            with complete:
                self.store(sums, first)
            with so_far:
                for total, out in zip(sums, self._out, strict=True):
                    self._store_columns(total, out, first)

    def store(self, sums: Sequence[ir.Value], first: int, factors: Sequence[ir.Value] = ()) -> None:
        """Scale the sums of every row, add the bias, and write as many as the matrix has columns.

        Args:
            sums: a vector of floats per row.
            first: their first column in the panel.
            factors: also of the rows; none: 1.
        """
        builder, vector = self.builder, sums[0].type
        scale, bias = (self._load_columns(base, vector, first) for base in (self._scale, self._bias))
        for r, total in enumerate(sums):
            scaled = builder.fmul(scale, self.spread(vector, factors[r])) if factors else scale
            self._store_columns(builder.fadd(builder.fmul(total, scaled), bias), self._out[r], first)

    def _load_columns(self, base: ir.Value, vector: ir.VectorType, first: int) -> ir.Value:
        """Those of a vector of numbers that the matrix has columns for, and 0 for the others."""
        return self._call("masked.load", vector, vector, [*self._columns(base, vector, first),
                                                          ir.Constant(vector, None)], ".p0")

    def _store_columns(self, numbers: ir.Value, base: ir.Value, first: int) -> None:
        self._call("masked.store", numbers.type, ir.VoidType(), [
            numbers, *self._columns(base, numbers.type, first)], ".p0")

    def _columns(self, base: ir.Value, vector: ir.VectorType, first: int) -> list[ir.Value]:
        """The address of a vector of numbers, its alignment, and which of them the matrix has columns for."""
        builder, lanes = self.builder, ir.VectorType(ir.IntType(64), vector.count)
        columns = ir.Constant(lanes, list(range(first, first + vector.count)))
        return [builder.bitcast(builder.gep(base, [self.index(first)]), vector.as_pointer()),
                ir.Constant(ir.IntType(32), self.bits // 8),
                builder.icmp_signed("<", columns, self.spread(lanes, self._remaining))]

    def multiply_add(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x * y + z."""
        return self._call("fmuladd", x.type, x.type, [x, y, z])

    def _call(self, name: str, vector: ir.VectorType, result: ir.Type, arguments: list[ir.Value],
              suffix: str = "") -> ir.Value:
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(result, [argument.type for argument in arguments]),
            f"llvm.{name}.v{vector.count}f{self.bits}{suffix}")
        return self.builder.call(function, arguments)


def _write_exact(tile: _Tile) -> None:
    """Add four products at a time to each sum, in the same order for any number of rows."""
    builder = tile.builder
    columns = COLUMNS
    while 2 * tile.rows * columns * tile.bits > _REGISTERS * _BITS:  # all sums, and the products to be added to them
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


def _write_rounded(tile: _Tile) -> None:
    """Multiply and add integers, which has no rounding errors: the same on every processor.

    The weights' `OFFSET` adds to every sum of a row OFFSET times the sum of the row's numbers.
    """
    builder, number = tile.builder, ir.IntType(32)
    dot, lanes = choose_dot(_FEATURES)
    vector, parts = ir.VectorType(number, lanes), COLUMNS // lanes
    nothing, ones = ir.Constant(vector, None), ir.Constant(vector, [0x01010101] * lanes)
    totals = [[cgutils.alloca_once_value(builder, nothing) for _ in range(parts)] for _ in range(tile.rows)]
    shifts = [cgutils.alloca_once_value(builder, nothing) for _ in range(tile.rows)]

    def add(total: ir.Value, weights: ir.Value, numbers: ir.Value) -> None:
        builder.store(dot(builder, builder.load(total), weights, numbers), total)

    with tile.steps(0, 1) as k:
        fours = [builder.bitcast(builder.gep(x_row, [k]), number.as_pointer()) for x_row in tile.x_rows]
        numbers = [tile.spread(vector, builder.load(four, align=1)) for four in fours]
        for row, shift in zip(numbers, shifts, strict=True):
            add(shift, ones, row)
        for part in range(parts):
            place = builder.add(builder.mul(k, tile.index(COLUMNS)), tile.index(part * lanes * TOGETHER))
            weights = tile.load(vector, tile.panel, place)
            for row, total in zip(numbers, totals, strict=True):
                add(total[part], weights, row)
    factors = [builder.load(factor) for factor in tile.factors]
    times = ir.Constant(vector, [OFFSET] * lanes)
    shifted = [builder.mul(builder.load(shift), times) for shift in shifts]
    for part in range(parts):
        sums = [builder.sitofp(builder.sub(builder.load(total[part]), shift), ir.VectorType(tile.number, lanes))
                for total, shift in zip(totals, shifted, strict=True)]
        tile.store(sums, part * lanes, factors)
