"""Ranges of settings, declared in the type of each field and checked whenever the settings are made.

For example: `steps: Positive = 3000`, `betas: tuple[ProperShare, ProperShare]`, `norm: Literal["pre", "post"]`. It does
not matter whether settings are made from params.yaml (`pipeline.blocks`), from a command's options or in Python.
"""

import math
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pipeline.errors import PipelineError


class Refused(PipelineError):
    """A value that its field's type refuses. The message begins with the field's name within its settings."""


class Check(Protocol):
    """The metadata of a type in `Annotated`."""

    def fault(self, value: Any) -> str | None:
        """Return what the value must be and is not; None if it is valid."""


@dataclass(frozen=True, repr=False)
class Range:
    """The finite numbers within bounds.

    >>> Range(above=0, at_most=100)
    above 0 and at most 100
    >>> Range(at_least=0).fault(math.nan)
    'must be finite and at least 0'
    """

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def fault(self, value: float) -> str | None:
        if isinstance(value, float) and not math.isfinite(value):
            return f"must be finite and {self}"
        within = ((self.at_least is None or value >= self.at_least) and (self.above is None or value > self.above)
                  and (self.at_most is None or value <= self.at_most) and (self.below is None or value < self.below))
        return None if within else f"must be {self}"

    def __repr__(self) -> str:
        return " and ".join(f"{name.replace('_', ' ')} {bound}" for name, bound in vars(self).items()
                            if bound is not None)


class NotEmpty:
    """At least one entry."""

    def fault(self, value: typing.Sized) -> str | None:
        return None if value else "must have at least one entry"


Positive = Annotated[int, Range(at_least=1)]
Natural = Annotated[int, Range(at_least=0)]
"""An integer from 0."""
Position = Annotated[int, Range(at_least=-10_000, at_most=10_000)]
"""A word position, or a step between two, which may be negative."""
Seed = Annotated[int, Range(at_least=0, at_most=2 ** 32 - 1)]
"""A seed that NumPy, PyTorch and Lightning all accept."""
Amount = Annotated[float, Range(at_least=0)]
AboveZero = Annotated[float, Range(above=0)]
Share = Annotated[float, Range(at_least=0, at_most=1)]
ProperShare = Annotated[float, Range(at_least=0, below=1)]
"""A share below 1."""
SomeButNotAll = Annotated[float, Range(above=0, below=1)]


@dataclass(frozen=True)
class Checked:
    """Settings whose values are checked against their types. Subclasses with further checks call this one first."""

    def __post_init__(self) -> None:
        for name, kind in declared(type(self)).items():
            _check(kind, getattr(self, name), name)


def declared(settings: type) -> dict[str, Any]:
    """The types of a dataclass's fields by name, with the metadata of `Annotated`."""
    return typing.get_type_hints(settings, include_extras=True)


def _check(kind: Any, value: Any, where: str) -> None:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        for check in kind.__metadata__:
            if (fault := check.fault(value)) is not None:
                raise Refused(f"{where}: {value!r} {fault}")
        _check(kind.__origin__, value, where)
    elif origin is typing.Literal:
        if value not in arguments:
            raise Refused(f"{where} is {value!r}; choose one of {', '.join(map(str, arguments))}")
    elif origin in (typing.Union, types.UnionType):
        if value is not None:
            _check(next(one for one in arguments if one is not type(None)), value, where)
    elif origin is tuple:
        kinds = (arguments[0],) * len(value) if arguments[1:] == (Ellipsis,) else arguments
        for place, (one, item) in enumerate(zip(kinds, value, strict=True)):
            _check(one, item, f"{where}[{place}]")
    elif origin is dict:
        for key, item in value.items():
            _check(arguments[0], key, where)
            _check(arguments[1], item, f"{where}.{key}")
