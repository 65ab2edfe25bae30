"""Builds dataclasses from blocks of params.yaml, strictly: every key is known, every value has its type."""

import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from pipeline.checks import Refused
from pipeline.errors import PipelineError

T = TypeVar("T")


@contextmanager
def mistakes_in(file: Path | str) -> Iterator[None]:
    """Let the error messages of what is done within begin with `file`, which the blocks are from.

    Settings, which check their own values, cannot know it: they name params.yaml, or a key alone.
    """
    try:
        yield
    except PipelineError as error:
        raise PipelineError(f"{file}: {str(error).removeprefix('params.yaml: ')}") from None


def build(kind: type[T], block: Any, where: str = "") -> T:
    """A dataclass from a mapping.

    Args:
        kind: a dataclass of plain types, optional ones, tuples, dictionaries and other such dataclasses. If it has a
            class method `variant(block, where)`, this returns the subclass to build.
        block: the parsed YAML.
        where: its dotted name, for error messages; empty for the content of a file.

    Raises:
        PipelineError: a key is unknown or missing, or a value has another type or is refused by its type (`checks`).

    >>> from pipeline.model.settings import NetworkSettings
    >>> build(NetworkSettings, {"width": 64, "heads": 2}, "network").width
    64
    >>> build(NetworkSettings, {"widht": 64}, "network")
    Traceback (most recent call last):
    ...
    pipeline.errors.PipelineError: params.yaml: network.widht is unknown; did you mean network.width?
    """
    if not isinstance(block, Mapping):
        raise PipelineError(f"params.yaml: {where} must be a block of keys, not {block!r}")
    kind = getattr(kind, "variant", lambda *_: kind)(block, where)
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for key in block:
        if key not in known:
            raise PipelineError(f"params.yaml: {_within(where, key)} is unknown; "
                                f"{_suggestion(str(key), list(known), where)}")
    for name, field in known.items():
        if name not in block and field.default is MISSING and field.default_factory is MISSING:
            raise PipelineError(f"params.yaml: {_within(where, name)} is missing; add it")
    hints = typing.get_type_hints(kind)
    converted = {key: convert(hints[key], value, _within(where, key)) for key, value in block.items()}
    try:
        return kind(**converted)
    except Refused as error:
        raise PipelineError(f"params.yaml: {_within(where, error)}") from None


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Blocks of `base` updated by those of `overlay`: mappings are merged, null removes a key, all else is replaced.

    So no block has a null that `base` does not have.

    >>> merge({"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 0}, {"a": {"y": 3}, "b": [4], "c": None})
    {'a': {'x': 1, 'y': 3}, 'b': [4]}
    >>> merge({}, {"a": {"x": None, "y": 1}})
    {'a': {'y': 1}}
    """
    merged = dict(base)
    for key, value in overlay.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            block = merged.get(key)
            merged[key] = merge(block if isinstance(block, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def convert(hint: Any, value: Any, where: str) -> Any:
    """A parsed YAML value converted to a type that a field of `build`'s dataclasses may have.

    Raises:
        PipelineError: the value has another type; the message begins with its dotted name, `where`.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or origin is typing.Literal:  # whose values `checks` checks
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return convert(next(kind for kind in arguments if kind is not type(None)), value, where)
    if is_dataclass(hint):
        return build(typing.cast(type, hint), value, where)
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise PipelineError(f"params.yaml: {where} must be a block of keys, not {value!r}")
        for key in value:
            if not isinstance(key, str):
                raise PipelineError(f"params.yaml: {where}: the name {key!r} is read as {type(key).__name__}, not as "
                                    "text; put it in quotes")
        return {key: convert(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)  # YAML 1.1 reads 1e-9 as a string
        except (ValueError, OverflowError):  # words, or an integer of hundreds of digits
            pass
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise PipelineError(f"params.yaml: {where} is {value!r}; it must be of type {hint.__name__}")
    return value


def _tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise PipelineError(f"params.yaml: {where} must be a list, not {value!r}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise PipelineError(f"params.yaml: {where} must have {len(arguments)} entries, not {len(value)}")
    return tuple(convert(kind, item, f"{where}[{place}]")
                 for place, (kind, item) in enumerate(zip(arguments, value, strict=True)))


def _suggestion(key: str, known: list[str], where: str) -> str:
    import difflib  # only needed for an error

    near = difflib.get_close_matches(key, known, 1)
    return f"did you mean {_within(where, near[0])}?" if near else f"choose among {', '.join(known)}"


def _within(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)
