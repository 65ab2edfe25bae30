"""Integers that several threads read and write, for compiled code, which has no other way to order their accesses."""

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic as _intrinsic

intrinsic: Any = _intrinsic  # whose type lets calls pass the typing context, which numba adds
_X86 = "x86_64" in llvm.get_process_triple()


@intrinsic
def load(_: Any, array: Any, place: Any) -> Any:
    """Read an entry of integers of 64 bits. Whatever was written before it was stored is seen afterwards."""
    def write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return builder.load_atomic(_entry(context, builder, signature, arguments), "acquire", 8)
    return types.int64(array, place), write


@intrinsic
def store(_: Any, array: Any, place: Any, value: Any) -> Any:
    """Write an entry; see `load`."""
    def write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        builder.store_atomic(_number(context, builder, signature, arguments, 2),
                             _entry(context, builder, signature, arguments), "release", 8)
        return context.get_dummy_value()
    return types.void(array, place, value), write


@intrinsic
def add(_: Any, array: Any, place: Any, value: Any) -> Any:
    """Add to an entry, in one access."""
    def write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        builder.atomic_rmw("add", _entry(context, builder, signature, arguments),
                           _number(context, builder, signature, arguments, 2), "acq_rel")
        return context.get_dummy_value()
    return types.void(array, place, value), write


@intrinsic
def replace(_: Any, array: Any, place: Any, old: Any, new: Any) -> Any:
    """Write an entry if it is still `old`, in one access; returns whether it was."""
    def write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        values = (_number(context, builder, signature, arguments, i) for i in (2, 3))
        found = builder.cmpxchg(_entry(context, builder, signature, arguments), *values, "acq_rel", "acquire")
        return builder.extract_value(found, 1)
    return types.boolean(array, place, old, new), write


@intrinsic
def wait(_: Any) -> Any:
    """Tell the processor that this thread waits in a loop."""
    def write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        if _X86:
            function = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, function, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()
    return types.void(), write


@intrinsic
def address(_: Any, number: Any, kind: Any) -> Any:
    """A pointer to numbers of a kind, such as `np.float32`, at an address."""
    pointer = types.CPointer(kind.dtype)

    def write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))
    return pointer(number, kind), write


def _entry(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
    """The address of an entry; the array and the index are the first two arguments."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [context.cast(builder, arguments[1], signature.args[1], types.intp)])


def _number(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any, place: int) -> ir.Value:
    """One of the arguments, as the array's entries are."""
    return context.cast(builder, arguments[place], signature.args[place], types.int64)
