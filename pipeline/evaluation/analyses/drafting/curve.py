"""How does acceptance grow with training? The curves that training writes."""

import csv
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from pipeline.errors import PipelineError
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured

METRIC = "validation_accepted"
"""Tokens that a call accepts, on the validation sentences, as a drafter's training logs it."""
Curve = dict[int, float]
"""Accepted tokens a call by optimiser steps done."""


def draft_curve(curves: Mapping[str, Curve]) -> Finding:
    """Set accepted tokens against training steps.

    Args:
        curves: of the drafters whose training wrote one.
    """
    if not curves:
        return not_measured(f"no drafter of analyses.drafting.sizes has {METRIC} among its training curves")
    metric = {family: {"steps": max(curve), "last": curve[max(curve)], "best": max(curve.values()),
                       "best_step": max(curve, key=lambda step: curve[step])} for family, curve in curves.items()}
    return Finding(metric, _draw(curves))


def read_curve(training: Path) -> Curve | None:
    """Read a family's curve from the folder that its training reports to; None where it has none.

    Raises:
        PipelineError: the file is damaged.
    """
    path = training / "plots" / "metrics" / f"{METRIC}.tsv"
    if not path.exists():
        return None
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    curve = {}
    for number, row in enumerate(rows, start=2):
        try:
            curve[int(row["step"]) + 1] = float(row[METRIC])  # its steps are counted from 0
        except (KeyError, TypeError, ValueError):
            raise PipelineError(f"{path}:{number}: not a step and a number; train the family again") from None
    return curve or None


def _draw(curves: Mapping[str, Curve]) -> Figure:
    figure, (axes,) = chart.new_picture()
    for (family, curve), colour in zip(curves.items(), chart.COLOURS * len(curves), strict=False):
        steps = sorted(curve)
        chart.curve(axes, steps, [curve[step] for step in steps], colour, label=family)
    axes.set_ylim(bottom=1)
    chart.name_axes(axes, "steps of training", "tokens a call, validation")
    chart.add_legend(figure, 4)
    return figure
