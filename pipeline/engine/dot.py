"""The dot product of bytes, by the instructions that the processor has. All ways have the same sums."""

from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir
from numba.core import cgutils

from pipeline.engine.reading import OFFSET, TOGETHER

Add = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]
"""Adds to every lane of 32 bits the products of four unsigned and four signed bytes."""


class Dot(NamedTuple):
    """A way to multiply bytes."""

    add: Add
    lanes: int
    """Its lanes of 32 bits."""
    registers: int
    """Those that hold the numbers of a row, beside its sums."""
    offset: bool
    """Whether sums are those of the unsigned weights, with their `OFFSET`; if not, those of the weights without it."""


def choose_dot(features: str) -> Dot:
    """The fastest way on a processor with these features."""
    if "+avx512vnni" in features or "+avxvnni" in features:
        return Dot(dot_of_bytes, 16 if "+avx512vnni" in features else 8, 1, True)
    return Dot(dot_of_pairs, 8, 2, False) if "+avx2" in features else Dot(dot_of_lanes, 8, 2, True)


def dot_of_bytes(builder: ir.IRBuilder, total: ir.Value, weights: ir.Value, numbers: ir.Value) -> ir.Value:
    """VNNI: one instruction."""
    vector = total.type
    return _instruction(builder, f"avx512.vpdpbusd.{vector.count * 32}", vector, [total, weights, numbers])


def dot_of_pairs(builder: ir.IRBuilder, total: ir.Value, weights: ir.Value, numbers: ir.Value) -> ir.Value:
    """AVX2: products of unsigned by signed bytes, two of which one instruction adds to 16 bits, and another to 32.

    Products with weights up to 255 could leave 16 bits. With the numbers' signs moved to weights without `OFFSET` they
    do not: two of them are at most 2 * 127 * 127.
    """
    vector = total.type
    eights, shorts = (ir.VectorType(ir.IntType(bits), vector.count * 32 // bits) for bits in (8, 16))
    signed = builder.xor(builder.bitcast(weights, eights), ir.Constant(eights, [OFFSET] * eights.count))
    numbers = builder.bitcast(numbers, eights)
    negative = builder.icmp_signed("<", numbers, ir.Constant(eights, None))
    sizes = builder.select(negative, builder.neg(numbers), numbers)
    moved = _instruction(builder, "avx2.psign.b", eights, [signed, numbers])
    pairs = _instruction(builder, "avx2.pmadd.ub.sw", shorts, [sizes, moved])
    ones = ir.Constant(shorts, [1] * shorts.count)
    return builder.add(total, _instruction(builder, "avx2.pmadd.wd", vector, [pairs, ones]))


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
