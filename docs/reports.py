"""The reports that the tables of README and docs show: what is read of a run's folder."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docs.tables import when
from pipeline.params import Params, parse_params
from pipeline.strict_yaml import read_yaml
from pipeline.systems import lay_over

ROOT = Path(__file__).parents[1]
RUN, FULL, BASE, LATTICES, DRAFTERS, CORRECTION, CORRECTION_BASE = (
    "reports", "reports/full", "reports/base", "reports/lattice", "reports/drafting", "reports/gec", "reports/gec_base")
"""Folders of the runs that are shown: the default one, and those of six presets."""

NOT_MEASURED = "Not measured yet."
"""What a page has where there is no report."""

Row = Mapping[str, Any]
"""One decoder of a run."""


def exists(report: str) -> bool:
    """Whether there is a report, or the folder of a run."""
    return (ROOT / report).exists()


def read(report: str) -> Any:
    """The content of a report."""
    return json.loads((ROOT / report).read_text(encoding="utf-8"))


def measured(report: str) -> str:
    """When, by which code and on which machine a report's times were measured, in a sentence."""
    return when(read(report))


def dated(report: str, *paragraphs: str) -> str:
    """What a report shows, and when and where it was measured."""
    return "\n\n".join((measured(report), *paragraphs))


@cache
def parameters(run: str = RUN) -> Params:
    """The parameters of a run: the default ones, under those of the preset that has the name of the run's folder."""
    content = read_yaml(ROOT / "params.yaml")
    return parse_params(content if run == RUN else lay_over(content, ROOT / "presets" / f"{Path(run).name}.yaml"))


def baseline() -> str:
    """The family that all others are compared with."""
    return parameters().baseline


def decoders(run: str) -> list[Row]:
    """The rows of a run."""
    rows: list[Row] = read(f"{run}/decoders.json")
    return rows


def find(run: str, family: str, decoder: str) -> Row:
    """The row of one decoder of a run."""
    return next(row for row in decoders(run) if (row["family"], row["decoder"]) == (family, decoder))


def drafts(row: Row) -> bool:
    """Whether a decoder drafts, with its drafts verified or not."""
    return row["accepted_per_call"] is not None or row["decoder"] == "draft"


def steps(run: str, family: str) -> int:
    """The steps of a family's own training, which may have ended before its ceiling."""
    last: int = read(f"{run}/training/{family}/metrics.json")["step"]  # from 0
    return last + 1
