"""The innermost loop of all products, as the vector instructions that it shall become.

A compiler that is given loops over rows of a matrix writes every sum to memory and reads it again four products later.
Here the sums of a few rows and of a panel of 32 columns stay in registers until they are done, and the panel, which
lies in one piece, is read once from its beginning to its end. LLVM makes of vectors of 32 numbers whatever the
processor has.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pipeline.kernels.reading import COLUMNS

TOGETHER = 4
"""Products that are summed up before they join their sum: K is a multiple of it."""
_ORDER = (1, 0, 2, 3)  # of these products: any will do, but results are bit by bit those of one


def _declare(typing_context: Any, rows: Any, x: Any, row: Any, panels: Any, begin: Any, sums: Any) -> Any:
    """Write x (rows, K) times a panel (K, 32) into the first rows * 32 of `sums`.

    Args:
        rows: a literal, at most 4.
        x: (M, K) floats, of which the rows from `row` on are read; contiguous.
        row: the first of them.
        panels: flat array of floats or integers …
        begin: … in which the panel begins here.
        sums: flat array of floats.
    """
    if not isinstance(rows, types.IntegerLiteral):
        return None
    return types.void(rows, x, row, panels, begin, sums), _write


multiply: Any = intrinsic(prefer_literal=True)(_declare)


def _write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
    """The instructions of `multiply`."""
    x_type, panels_type, sums_type = (signature.args[place] for place in (1, 3, 5))
    rows, bits = signature.args[0].literal_value, x_type.dtype.bitwidth
    # The panel is read in as many goes as leave all sums and their products room in the registers.
    registers = 32 * 512 if "+avx512f" in context.codegen().magic_tuple()[2] else 16 * 256
    columns = COLUMNS
    while 2 * rows * columns * bits > registers:
        columns //= 2
    vector = ir.VectorType(context.get_value_type(x_type.dtype), columns)
    as_read = ir.VectorType(context.get_value_type(panels_type.dtype), columns)
    zero, undefined = ir.Constant(vector, None), ir.Constant(vector, ir.Undefined)
    first = ir.Constant(ir.VectorType(ir.IntType(32), columns), None)
    fused = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{columns}f{bits}")

    def index(value: int) -> ir.Constant:
        return context.get_constant(types.intp, value)

    def data(place: int, kind: Any) -> ir.Value:
        return context.make_array(kind)(context, builder, arguments[place]).data

    K = cgutils.unpack_tuple(builder, context.make_array(x_type)(context, builder, arguments[1]).shape)[1]
    row, begin = (context.cast(builder, arguments[place], signature.args[place], types.intp) for place in (2, 4))
    lines = [builder.gep(data(1, x_type), [builder.mul(builder.add(row, index(r)), K)]) for r in range(rows)]
    panel, sums = builder.gep(data(3, panels_type), [begin]), data(5, sums_type)
    totals = [cgutils.alloca_once(builder, vector) for _ in range(rows)]  # which become registers
    for column in range(0, COLUMNS, columns):
        for total in totals:
            builder.store(zero, total)
        with cgutils.for_range_slice(builder, index(0), K, index(TOGETHER)) as (k, _):
            products: list[Any] = [None] * rows
            for ahead in _ORDER:
                place = builder.add(k, index(ahead))
                source = builder.gep(panel, [builder.add(builder.mul(place, index(COLUMNS)), index(column))])
                weights = builder.load(builder.bitcast(source, as_read.as_pointer()),
                                       align=panels_type.dtype.bitwidth // 8)
                if isinstance(panels_type.dtype, types.Integer):
                    weights = builder.sitofp(weights, vector)
                for r, line in enumerate(lines):
                    one = builder.insert_element(undefined, builder.load(builder.gep(line, [place])), index(0))
                    same = builder.shuffle_vector(one, undefined, first)
                    products[r] = (builder.fmul(same, weights) if products[r] is None
                                   else builder.call(fused, [same, weights, products[r]]))
            for total, product in zip(totals, products, strict=True):
                builder.store(builder.fadd(builder.load(total), product), total)
        for r, total in enumerate(totals):
            target = builder.bitcast(builder.gep(sums, [index(r * COLUMNS + column)]), vector.as_pointer())
            builder.store(builder.load(total), target, align=bits // 8)
    return context.get_dummy_value()
