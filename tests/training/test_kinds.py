"""Every kind of family, whichever there are: what its settings tell its module, and what others ask of them."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.families.base import TranslationModule, family_module
from pipeline.families.settings import KINDS, FamilySettings, kind_settings
from pipeline.systems import TABLES

every_kind = pytest.mark.parametrize("kind", KINDS)
ALL: dict[str, Any] = {"network": {}, "training": {}, "optimisation": {}}
OWN: dict[str, dict[str, Any]] = {"order": {"name": "left_to_right"}, "drafting": {"verifier": "ar"}}
"""Of settings that some kinds must name, one of the shortest."""


def settings(kind: str) -> FamilySettings:
    """The settings of a family that has no more than it must."""
    known = {field.name for field in fields(kind_settings(kind))}
    return build(FamilySettings, {"kind": kind, **ALL, **{name: OWN[name] for name in OWN if name in known}}, "family")


@every_kind
def test_a_module_takes_what_the_settings_tell_it(kind: str) -> None:
    module, found = family_module(kind), settings(kind)
    assert issubclass(module, TranslationModule) and type(found) is kind_settings(kind) and found.kind == kind
    parameters = inspect.signature(module).parameters
    told = {"network", "optimisation", "vocabulary", "seed", *found.arguments()}
    assert told <= parameters.keys()
    assert {name for name, one in parameters.items() if one.default is one.empty} <= told


@every_kind
def test_dvc_trains_it_from_a_table(kind: str) -> None:
    assert settings(kind).table in TABLES


@every_kind
def test_what_only_other_kinds_say_is_refused(kind: str) -> None:
    known = {field.name for field in fields(kind_settings(kind))}
    others = {field.name for other in KINDS for field in fields(kind_settings(other))} - known
    for name in others:
        with pytest.raises(PipelineError, match=f"{name}: a family of kind {kind} has none; remove it, or choose "):
            build(FamilySettings, {"kind": kind, **ALL, name: OWN.get(name)}, "family")
    assert others or len(KINDS) == 1


def test_parameters_are_read_without_torch() -> None:
    """So that a mistake in params.yaml is reported at once, and translation needs no Lightning."""
    program = ("import sys\nfrom pipeline.params import load_params\nload_params()\n"
               "assert not {'torch', 'pytorch_lightning', 'numba'} & sys.modules.keys()")
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
