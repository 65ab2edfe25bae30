"""Compiled functions that are compiled once, and that other compiled functions call by their address.

numba compiles what a function calls into that function, again for every caller. For a few lines this is right: they
become faster. A dozen searches that call a decoder's layers would compile these a dozen times, for seconds each.

    @by_address
    @njit(cache=True, nogil=True)
    def read(tokens, reading): ...

Machine code that is kept on disk cannot have addresses. It has the name and the types of the called function instead,
and asks for the address (`_find`) at the first call of a process.
"""

import ctypes
import json
import sys
import traceback
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate

__all__ = ["by_address"]

Function = TypeVar("Function", bound=Callable[..., Any])

_FIND = "fast_nmt_find"
_ADDRESS = ir.IntType(64)
_dispatchers: dict[str, Any] = {}
"""numba's dispatchers of the functions that are called by address, by their names."""


def by_address(function: Function) -> Function:
    """A function that `njit` has made, which compiled callers will call by its address, with arguments by position."""
    dispatcher: Any = function
    name = f"{function.__module__}.{function.__qualname__}"
    _dispatchers[name] = dispatcher

    class Call(AbstractTemplate):
        """How numba infers the types of a call."""

        key = name

        def generic(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
            if named:
                raise TypingError(f"{name} is called by address: give {', '.join(named)} by position")
            kinds = tuple(map(types.unliteral, arguments))
            return signature(_compiled(dispatcher, kinds).signature.return_type, *kinds)

    @lower_builtin(name, types.VarArg(types.Any))
    def call(context: Any, builder: ir.IRBuilder, called: Any, arguments: Any) -> ir.Value:
        """The instructions of a call."""
        convention = context.call_conv
        kind = convention.get_function_type(called.return_type, called.args)
        address = _kept_address(context, builder, name, called.args)
        status, result = convention.call_function(builder, builder.inttoptr(address, kind.as_pointer()),
                                                  called.return_type, called.args, arguments)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return cast(Function, _ByAddress(dispatcher, types.Function(Call)))


class _ByAddress:
    """Called from Python, numba's dispatcher; in compiled code, what `by_address` makes of it."""

    def __init__(self, dispatcher: Any, kind: types.Function) -> None:
        update_wrapper(self, dispatcher.py_func)
        self._dispatcher, self._numba_type_ = dispatcher, kind

    def __call__(self, *arguments: Any) -> Any:
        return self._dispatcher(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)


def _compiled(dispatcher: Any, kinds: tuple[Any, ...]) -> Any:
    """What numba has compiled, or loaded from the disk, for arguments of these types."""
    dispatcher.compile(kinds)
    return dispatcher.overloads[kinds]


def _described(kind: Any) -> Any:
    """A type of numba's for JSON; see `_kind`.

    Raises:
        TypingError: it is no number, array or named tuple of these.
    """
    if isinstance(kind, types.Array):
        return [_described(kind.dtype), kind.ndim, kind.layout, kind.mutable, kind.aligned]
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        return {"class": [kind.instance_class.__module__, kind.instance_class.__qualname__],
                "fields": [_described(field) for field in kind.types]}
    if not isinstance(kind, types.Number | types.Boolean):
        raise TypingError(f"{kind} is no number, array or named tuple of these, as functions called by address take")
    return str(kind)


def _kind(described: Any) -> Any:
    """The type that was described: of a scalar, an array or a named tuple of these."""
    if isinstance(described, dict):
        module, name = described["class"]
        return types.BaseTuple.from_types(tuple(map(_kind, described["fields"])), getattr(sys.modules[module], name))
    if isinstance(described, list):
        number, dimensions, layout, mutable, aligned = described
        return types.Array(_kind(number), dimensions, layout, readonly=not mutable, aligned=aligned)
    return from_dtype(np.dtype(described))


def _kept_address(context: Any, builder: ir.IRBuilder, name: str, kinds: tuple[Any, ...]) -> ir.Value:
    """The address of a function for arguments of some types; each call in machine code finds it once per process."""
    kept = ir.GlobalVariable(builder.module, _ADDRESS, builder.module.get_unique_name("address"))
    kept.linkage, kept.initializer = "internal", _ADDRESS(0)
    with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", builder.load(kept), _ADDRESS(0))):
        text = context.insert_const_string(builder.module, json.dumps([name, *map(_described, kinds)]))
        find = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_ADDRESS, [text.type]), _FIND)
        found = builder.call(find, [text])
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", found, _ADDRESS(0))):
            message = f"{name} was not found; the cause is printed above"
            context.call_conv.return_user_exc(builder, RuntimeError, (message,))
        builder.store(found, kept)
    return builder.load(kept)


@ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p)
def _find(wanted: bytes) -> int:
    """The address of a function, or 0 after an error, which is printed: compiled code cannot pass it on.

    Of a function that raises, ctypes would return whatever the memory holds.
    """
    try:
        name, *described = json.loads(wanted)
        made = _compiled(_dispatchers[name], tuple(map(_kind, described)))
        return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
    except BaseException:
        traceback.print_exc()
        return 0


llvm.add_symbol(_FIND, ctypes.cast(_find, ctypes.c_void_p).value)
