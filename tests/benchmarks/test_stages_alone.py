"""Stages without DVC: those of dvc.yaml, in an order in which each finds what it reads."""

import re
from pathlib import Path

import pytest

from benchmarks.stages import Stage, run_stages, stages_of
from pipeline.params import parse_params
from pipeline.strict_yaml import read_yaml
from pipeline.systems import lay_over

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"corpus", "bpe", "models", "speed", "analyses", "report"}
"""What comes along, and what needs the machine for itself or is made of everything else."""


PARAMS = parse_params(lay_over(read_yaml(ROOT / "params.yaml"), ROOT / "presets/gpu.yaml"))


def test_the_stages_are_those_of_dvc() -> None:
    defined, found = read_yaml(ROOT / "dvc.yaml")["stages"], stages_of(PARAMS)
    named: dict[str, str] = {}
    for name, stage in found.items():
        base, _, family = name.partition("@")
        if base == "fit" and PARAMS.family(family).kind == "lattice":
            base = "fit_lattice"
        command = defined[base].get("do", defined[base])["cmd"]
        named[base] = re.sub(r"\$\{item\}", f"--family {family}", command).replace("'${key}'", family)
        assert named[base] == f"python -m pipeline {' '.join(stage.command)}"
    assert {*defined} - {*named} == ELSEWHERE


@pytest.mark.parametrize("preset", sorted((ROOT / "presets").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_stage_is_reached(preset: Path) -> None:
    """Also where a student starts from a family that is no system, and so is not evaluated."""
    params = parse_params(lay_over(read_yaml(ROOT / "params.yaml"), preset))
    found, done = stages_of(params), set[str]()
    while ready := {name for name, stage in found.items() if stage.needs <= done} - done:
        done |= ready
    assert done == {*found}
    assert [name for name in found if name.startswith("evaluate@")] == [f"evaluate@{one}" for one in params.systems]


def test_a_student_is_trained_after_what_it_starts_from_and_reads() -> None:
    found = stages_of(PARAMS)
    assert found["fit@drafter"].needs >= {"fit@ar", "distill"} and "counts" in found["fit@lattice"].needs


def test_what_needs_a_failed_stage_is_not_run(tmp_path: Path) -> None:
    stages = {"good": Stage(["completion", "bash"], set()), "bad": Stage(["no such command"], set()),
              "after both": Stage(["completion", "bash"], {"good", "bad"}),
              "after good": Stage(["completion", "bash"], {"good"})}
    found = run_stages(stages, ROOT, tmp_path, jobs=2)
    assert {name: what["exit"] for name, what in found.items()} == {"good": 0, "bad": 2, "after good": 0}
    assert found["after good"]["start"] >= found["good"]["end"]
    assert "no such command" in (tmp_path / "bad.log").read_text()
