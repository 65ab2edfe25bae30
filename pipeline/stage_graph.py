"""Finds the stages of single families, which can run at the same time, and those that they depend on."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline import layout
from pipeline.dvc_index import PIPELINE, Stage
from pipeline.errors import PipelineError
from pipeline.params import Params
from pipeline.schedule import After

_DECODER = 100
"""Training steps in the time in which a decoder translates the test split, roughly. Only the order of the stages
depends on it."""


@dataclass(frozen=True)
class Stages:
    """The stages of single families, and those that they depend on."""

    steps: dict[str, int]
    """Training steps of each stage of a family; for an evaluation, the number that would take as long."""
    needs: tuple[str, ...]
    """The other stages on which any of them depends, directly or not."""
    after: After
    """Per stage in `steps` and `needs`, those whose outputs it reads."""


def find_stages(stages: Mapping[str, Stage], params: Params) -> Stages:
    """The stages that a `foreach` or a `matrix` of dvc.yaml makes for single families, and those that they depend on.

    DVC calls such a stage GROUP@FAMILY. It trains the family if its checkpoint is among the outputs, and evaluates it
    otherwise.

    Raises:
        PipelineError: a `foreach` or a `matrix` is over anything but families.
    """
    steps = {}
    for name, stage in stages.items():
        group, of_group, family = name.partition("@")
        if not of_group or not stage.is_of_pipeline:
            continue
        if family not in params.families:
            raise PipelineError(f"{PIPELINE}: stage {name}: {family!r} is not a family of params.yaml; give {group} a "
                                "foreach or a matrix over nothing but families, or run `dvc repro`")
        trains = layout.checkpoint(family).as_posix() in stage.outputs
        steps[name] = params.family(family).training.steps if trains else _DECODER * len(params.decoders_of(family))
    needed = set(steps)
    while further := {other for name in needed for other in stages[name].after} - needed:
        needed |= further
    return Stages(steps, tuple(name for name in stages if name in needed and name not in steps),
                  {name: stage.after for name, stage in stages.items() if name in needed})
