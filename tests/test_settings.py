"""Every number of every settings class has a range, and settings with one outside of it cannot be made."""

import importlib
import math
import pkgutil
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal

import pytest

import pipeline.decoding
from pipeline.checks import Checked, Range, Refused, declared
from pipeline.families.settings import KINDS, kind_settings
from pipeline.model.settings import VocabularySettings
from pipeline.params import Params
from pipeline.sources.settings import CorpusSettings


def parts(kind: Any) -> tuple[Any, ...]:
    """The types that a type is made of; of a plain one, none."""
    if typing.get_origin(kind) is Annotated:
        return (kind.__origin__,)
    return tuple(part for part in typing.get_args(kind) if isinstance(part, type) or typing.get_origin(part))


def with_all_within(settings: type) -> Iterator[type]:
    """A settings class and those of its fields."""
    yield settings
    waiting = list(declared(settings).values())
    while waiting:
        kind = waiting.pop()
        if is_dataclass(kind):
            yield from with_all_within(typing.cast(type, kind))
        waiting += parts(kind)


def every_settings_class() -> list[type]:
    """Those of params.yaml, of every kind of source and family, of every decoder, and of checkpoints."""
    modules = [importlib.import_module(f"pipeline.decoding.{found.name}")
               for found in pkgutil.iter_modules(pipeline.decoding.__path__)]
    decoders = [module.Settings for module in modules if hasattr(module, "Settings")]
    families = [kind_settings(kind) for kind in KINDS]
    corpus = CorpusSettings.variant({}, "corpus")
    return list(dict.fromkeys(one for settings in (Params, VocabularySettings, corpus, *families, *decoders)
                              for one in with_all_within(settings)))


def numbers(kind: Any, checks: tuple[Any, ...] = ()) -> Iterator[tuple[type, tuple[Any, ...]]]:
    """The int and float of a field's type, each with what stands beside it."""
    if kind in (int, float):
        yield kind, checks
    for part in parts(kind):
        yield from numbers(part, getattr(kind, "__metadata__", ()))


CLASSES = every_settings_class()
NUMBERS = [(settings, name, number, checks) for settings in CLASSES for name, kind in declared(settings).items()
           for number, checks in numbers(kind)]


def test_the_walk_finds_them() -> None:
    found = {f"{settings.__name__}.{name}" for settings, name, _, _ in NUMBERS}
    assert {"Params.seed", "LimitSettings.extra", "OptimisationSettings.betas", "KeepSettings.train", "Settings.beams",
            "DraftAnalysesSettings.taus", "DraftingSettings.block", "LengthPenalty.alpha", "Acceptance.tau",
            "CatalogueSettings.test_share"} <= found


@pytest.mark.parametrize(("settings", "name", "number", "checks"), NUMBERS)
def test_every_number_declares_its_range(settings: type, name: str, number: type, checks: tuple[Any, ...]) -> None:
    assert any(isinstance(check, Range) for check in checks), f"{settings.__name__}.{name}: {number.__name__}"
    assert issubclass(settings, Checked), f"{settings.__name__} does not check the range of {name}"


def outside(number: type, bounds: Range) -> Iterator[float]:
    """Values of a type that bounds leave out."""
    if bounds.at_least is not None:
        yield number(bounds.at_least) - 1
    if bounds.at_most is not None:
        yield number(bounds.at_most) + 1
    yield from (number(bound) for bound in (bounds.above, bounds.below) if bound is not None)
    if number is float:
        yield from (math.nan, math.inf, -math.inf)


def holding(kind: Any, value: float) -> Any:
    """A value of a field's type in which a number stands in every place."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return holding(kind.__origin__, value)
    if origin in (typing.Union, types.UnionType):
        return holding(arguments[0], value)
    if origin is tuple:
        return tuple(holding(one, value) for one in arguments if one is not Ellipsis)
    return value


def required(settings: type) -> dict[str, Any]:
    """Anything for the fields that have no default: types are checked before all else."""
    kinds = {field.name: declared(settings)[field.name] for field in fields(settings)
             if field.default is MISSING and field.default_factory is MISSING}
    return {name: {dict: {}, tuple: (), Annotated: 1, Literal: (*typing.get_args(kind), None)[0]}.get(
        typing.get_origin(kind)) for name, kind in kinds.items()}


@pytest.mark.parametrize(("settings", "name", "number", "checks"), NUMBERS)
def test_numbers_outside_are_refused(settings: type, name: str, number: type, checks: tuple[Any, ...]) -> None:
    for bounds in checks:
        for value in outside(number, bounds):
            with pytest.raises(Refused, match=rf"^{name}(\[0\])?: {value!r} must be .*{bounds}") as refused:
                settings(**required(settings) | {name: holding(declared(settings)[name], value)})
            assert "\n" not in str(refused.value)


def test_bounds_are_within_or_not_as_they_say() -> None:
    half_open, other = Range(at_least=0, below=1), Range(above=0, at_most=1)
    assert [half_open.fault(value) for value in (0, 0.0, 0.5)] == [None] * 3
    assert [other.fault(value) for value in (1, 1.0, 1e-300)] == [None] * 3
    assert half_open.fault(1) == "must be at least 0 and below 1"
    assert other.fault(0.0) == "must be above 0 and at most 1"
    assert Range(at_least=1).fault(10 ** 400) is None  # no float holds it
