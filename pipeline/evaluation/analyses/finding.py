"""What an analysis returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from pipeline.evaluation.analyses.chart import new_picture


@dataclass(frozen=True)
class Finding:
    """The result of an analysis, as numbers to compare and as a picture."""

    metric: dict[str, Any]
    figure: Figure


Question = Callable[[], Finding]
"""An analysis with its context."""


def not_measured(reason: str) -> Finding:
    """The finding that there is nothing to analyse."""
    figure, (axes,) = new_picture()
    axes.set_axis_off()
    axes.text(0.5, 0.5, f"not measured: {reason}", ha="center", va="center", transform=axes.transAxes, fontsize=12,
              wrap=True)
    return Finding({"not_measured": reason}, figure)
