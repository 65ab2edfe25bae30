"""What an analysis hands back, and how it is written down."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from pipeline.evaluation.analyses.chart import new_picture, png
from pipeline.files import atomic_path, write_json

Point = dict[str, str | float | None]
"""A row of `dvc plots`."""


@dataclass(frozen=True)
class Finding:
    """An answer, as numbers to compare, as points to plot, and as a picture."""

    metric: dict[str, Any]
    points: list[Point]
    figure: Figure


Question = Callable[[], Finding]


def not_measured(reason: str) -> Finding:
    """The finding that there is nothing to look into."""
    figure, (axes,) = new_picture()
    axes.set_axis_off()
    axes.text(0.5, 0.5, f"not measured: {reason}", ha="center", va="center", transform=axes.transAxes, fontsize=12,
              wrap=True)
    return Finding({"not_measured": reason}, [], figure)


def write_finding(out: Path, name: str, finding: Finding) -> None:
    """Write NAME.json and NAME.png, and the points as plots/NAME.json."""
    write_json(out / f"{name}.json", finding.metric)
    write_json(out / "plots" / f"{name}.json", finding.points)
    with atomic_path(out / f"{name}.png") as aside:
        aside.write_bytes(png(finding.figure))
