"""The look of the analyses' pictures: that of `pipeline.evaluation.figures`, for curves and bars."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, TypeVar

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from pipeline.evaluation.figures import LIGHT as THEME

COLOURS = THEME.families
_PIXELS, _DPI = (1600, 1000), 200
_DRAWN = 8
_T = TypeVar("_T")


def coloured(things: Iterable[_T]) -> Iterator[tuple[_T, str]]:
    """Each of some things and its colour; of more things than colours, several have the same."""
    return zip(things, cycle(COLOURS))


def first_coloured(things: Iterable[_T]) -> Iterator[tuple[_T, str]]:
    """The first eight of some things, each with its colour: more curves or bars of a group cannot be told apart.

    Where there are more, the title of the picture must have the text of `of_all`.
    """
    return islice(coloured(things), _DRAWN)


def of_all(things: Sequence[Any]) -> str:
    """What a picture of `first_coloured` things must say about the others; nothing if there are none."""
    return f"the first {_DRAWN} of {len(things)} systems" if len(things) > _DRAWN else ""


def new_picture(columns: int = 1, *, above: float = 0.0) -> tuple[Figure, list[Axes]]:
    """A figure of 1600 x 1000 pixels.

    Args:
        columns: axes side by side.
        above: share of the height for a second row of axes above the first, with the same x.

    Returns:
        The figure, and the axes of the lower row and then of the upper one.
    """
    figure = Figure(figsize=(_PIXELS[0] / _DPI, _PIXELS[1] / _DPI), dpi=_DPI, facecolor=THEME.paper,
                    layout="constrained")
    FigureCanvasAgg(figure)
    heights = [above, 1 - above] if above else [1.0]
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    lower = [figure.add_subplot(grid[-1, column]) for column in range(columns)]
    upper = [figure.add_subplot(grid[0, column], sharex=lower[column]) for column in range(columns)] if above else []
    for axes in (*lower, *upper):
        axes.set_facecolor(THEME.paper)
        axes.grid(color=THEME.grid, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=THEME.muted, labelsize=9, length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    return figure, [*lower, *upper]


def name_axes(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Label the axes."""
    axes.set_xlabel(x, color=THEME.ink, fontsize=10)
    axes.set_ylabel(y, color=THEME.ink, fontsize=10)
    axes.set_title(title, color=THEME.ink, fontsize=10, loc="left")


def curve(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str, *, label: str = "", style: Any = "-",
          intervals: Sequence[tuple[float, float]] = ()) -> None:
    """A line with a dot at each point, and a bar at each interval."""
    axes.plot(x, y, color=colour, linestyle=style, linewidth=1.6, marker="o", markersize=4, label=label or None)
    for at, (low, high) in zip(x, intervals, strict=False):
        axes.plot([at, at], [low, high], color=colour, linewidth=3, alpha=0.3, solid_capstyle="round")


def bars(axes: Axes, values: Mapping[str, float], colours: Sequence[str]) -> None:
    """Horizontal bars by name, from top to bottom, with their values."""
    drawn = axes.barh(list(values), list(values.values()), height=0.6, color=colours)
    axes.bar_label(drawn, [f"{value:#.3g}".rstrip(".") for value in values.values()], fontsize=7,
                   color=THEME.muted, padding=2)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.18, y=0.02)
    axes.tick_params(axis="y", labelsize=7)


def intervals_by_name(axes: Axes, values: Mapping[str, tuple[float, float, float]]) -> None:
    """Values with their intervals, (value, low, high) by name, from top to bottom."""
    for at, ((value, low, high), colour) in enumerate(coloured(values.values())):
        axes.plot([low, high], [at, at], color=colour, linewidth=3, alpha=0.3, solid_capstyle="round")
        axes.plot([value], [at], color=colour, marker="o", markersize=4)
    axes.set_yticks(range(len(values)), list(values))
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", labelsize=7)


def powers_of_two(axes: Axes, ticks: Sequence[float]) -> None:
    """A logarithmic x axis with a tick at each of the values."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(set(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def logarithmic(axes: Axes, unit: str = "") -> None:
    """A logarithmic y axis with a unit at every tick."""
    axes.set_yscale("log", base=2)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{unit}"))


def add_legend(figure: Figure, columns: int) -> None:
    """A legend of the labelled lines, above the axes."""
    if not any(axes.get_legend_handles_labels()[0] for axes in figure.axes):
        return
    figure.legend(loc="outside upper left", ncols=columns, fontsize=9, labelcolor=THEME.ink, frameon=False,
                  handlelength=2.4, columnspacing=1.6)


def png(figure: Figure) -> bytes:
    """The picture's bytes; the same for the same picture."""
    written = io.BytesIO()
    figure.savefig(written, format="png", facecolor=THEME.paper, metadata={"Software": None})
    return written.getvalue()


def svg(figure: Figure) -> bytes:
    """The picture with letters as curves; the same bytes for the same picture."""
    written = io.BytesIO()
    with rc_context({"svg.hashsalt": "picture"}):  # names of clips and marks are random otherwise
        figure.savefig(written, format="svg", facecolor=THEME.paper, metadata={"Date": None, "Creator": None})
    return written.getvalue()
