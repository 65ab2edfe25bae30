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
    x_type, panels_type, sums_type = (signature.args[place] for place in (1, 3, 5))
    R = signature.args[0].literal_value
    vector = ir.VectorType(context.get_value_type(x_type.dtype), COLUMNS)
    undefined, nothing = ir.Constant(vector, ir.Undefined), ir.Constant(vector, None)
    as_read = ir.VectorType(context.get_value_type(panels_type.dtype), COLUMNS)
    integers = isinstance(panels_type.dtype, types.Integer)
    fused = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{COLUMNS}f{x_type.dtype.bitwidth}")

    def array(place: int, kind: Any) -> Any:
        return context.make_array(kind)(context, builder, arguments[place])

    def index(value: int) -> ir.Constant:
        return ir.Constant(place_type, value)

    place_type = context.get_value_type(types.intp)
    x = array(1, x_type)
    K = cgutils.unpack_tuple(builder, x.shape)[1]
    row = context.cast(builder, arguments[2], signature.args[2], types.intp)
    begin = context.cast(builder, arguments[4], signature.args[4], types.intp)
    lines = [builder.gep(x.data, [builder.mul(builder.add(row, index(r)), K)]) for r in range(R)]
    panel = builder.gep(array(3, panels_type).data, [begin])
    sums = array(5, sums_type).data

    before, loop, behind = builder.block, builder.append_basic_block("products"), builder.append_basic_block("sums")
    builder.cbranch(builder.icmp_signed(">", K, index(0)), loop, behind)
    builder.position_at_end(loop)
    k = builder.phi(place_type)
    k.add_incoming(index(0), before)
    totals = [builder.phi(vector) for _ in range(R)]
    for total in totals:
        total.add_incoming(nothing, before)
    products: list[Any] = [None] * R
    for ahead in _ORDER:
        place = builder.add(k, index(ahead))
        read = builder.load(builder.bitcast(builder.gep(panel, [builder.mul(place, index(COLUMNS))]),
                                            as_read.as_pointer()), align=panels_type.dtype.bitwidth // 8)
        weights = builder.sitofp(read, vector) if integers else read
        for r in range(R):
            number = builder.load(builder.gep(lines[r], [place]))
            one = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
            same = builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), COLUMNS), None))
            products[r] = (builder.fmul(same, weights) if products[r] is None
                           else builder.call(fused, [same, weights, products[r]]))
    joined = [builder.fadd(total, product) for total, product in zip(totals, products, strict=True)]
    after = builder.add(k, index(TOGETHER))
    k.add_incoming(after, loop)
    for total, more in zip(totals, joined, strict=True):
        total.add_incoming(more, loop)
    builder.cbranch(builder.icmp_signed("<", after, K), loop, behind)
    builder.position_at_end(behind)
    for r in range(R):
        result = builder.phi(vector)
        result.add_incoming(nothing, before)
        result.add_incoming(joined[r], loop)
        products[r] = result
    for r in range(R):
        target = builder.bitcast(builder.gep(sums, [index(r * COLUMNS)]), vector.as_pointer())
        builder.store(products[r], target, align=x_type.dtype.bitwidth // 8)
    return context.get_dummy_value()
