"""The dot product of bytes, by the instructions that the processor has. All ways have the same sums."""

from collections.abc import Callable

from llvmlite import ir
from numba.core import cgutils

from pipeline.engine.reading import TOGETHER

Dot = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]
"""Adds to every lane of 32 bits the products of its four unsigned and its four signed bytes."""


def choose_dot(features: str) -> tuple[Dot, int]:
    """The fastest such function on a processor with these features, and its number of lanes."""
    if "+avx512vnni" in features or "+avxvnni" in features:
        return dot_of_bytes, 16 if "+avx512vnni" in features else 8
    return (dot_of_pairs if "+avx2" in features else dot_of_lanes), 8


def dot_of_bytes(builder: ir.IRBuilder, total: ir.Value, weights: ir.Value, numbers: ir.Value) -> ir.Value:
    """VNNI: one instruction."""
    vector = total.type
    return _instruction(builder, f"avx512.vpdpbusd.{vector.count * 32}", vector, [total, weights, numbers])


def dot_of_pairs(builder: ir.IRBuilder, total: ir.Value, weights: ir.Value, numbers: ir.Value) -> ir.Value:
    """AVX2: even and odd bytes as integers of 16 bits, pairs of which one instruction multiplies and adds."""
    vector, shorts = total.type, ir.VectorType(ir.IntType(16), 2 * total.type.count)
    eight, low = (ir.Constant(shorts, [value] * shorts.count) for value in (8, 255))
    weights, numbers = builder.bitcast(weights, shorts), builder.bitcast(numbers, shorts)
    even = builder.and_(weights, low), builder.ashr(builder.shl(numbers, eight), eight)
    odd = builder.lshr(weights, eight), builder.ashr(numbers, eight)
    for pair in (even, odd):
        total = builder.add(total, _instruction(builder, "avx2.pmadd.wd", vector, list(pair)))
    return total


def dot_of_lanes(builder: ir.IRBuilder, total: ir.Value, weights: ir.Value, numbers: ir.Value) -> ir.Value:
    """On any processor: one byte of every lane at a time."""
    vector = total.type
    for place in range(TOGETHER):
        # Shifted to the top of the lane and down again, a byte is extended by its sign, or by zeros.
        up, down = (ir.Constant(vector, [bits] * vector.count) for bits in (24 - 8 * place, 24))
        unsigned = builder.lshr(builder.shl(weights, up), down)
        signed = builder.ashr(builder.shl(numbers, up), down)
        total = builder.add(total, builder.mul(unsigned, signed))
    return total


def _instruction(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Value]) -> ir.Value:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), arguments)
