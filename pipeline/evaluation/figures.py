"""Quality against speed in one picture: a colour per family, a marker per decoder."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from math import ceil, floor, log2

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from matplotlib.transforms import Bbox

from pipeline.evaluation.rows import Row, pareto


@dataclass(frozen=True)
class Theme:
    """Colours of a picture."""

    ink: str
    muted: str
    grid: str
    paper: str
    families: tuple[str, ...]


LIGHT = Theme("#1b1f24", "#5b6470", "#e4e7eb", "#ffffff",
              ("#0b6bcb", "#d1495b", "#2a9d6f", "#8a5cd1", "#c77700", "#147d92", "#b0489a", "#6b7280",
               "#8b5e3c", "#7a8b00", "#1e3a8a", "#e0539b"))
DARK = Theme("#e8eaed", "#9aa3ad", "#2e343b", "#16191d",
             ("#6db3ff", "#ff8a98", "#5fd3a4", "#bb9bf5", "#f4b24f", "#5cc7dc", "#e893d6", "#aab2bd",
              "#d2a679", "#c6d648", "#8fa4f3", "#ffb3d9"))
_MARKERS = "osD^vPX*<>ph"
_PIXELS, _DPI = (1600, 1000), 200
_LEGEND_COLUMNS, _LEGEND_ROW = 4, 0.04
"""Names per row of the legend, and a row's share of the picture's height."""
_REACHES = (12, 26, 42, 60, 80, 105, 135)
"""Pixels between a point and its label; from the third on, a line joins them."""
_DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))


def quality_speed_png(rows: Sequence[Row], theme: Theme = LIGHT) -> bytes:
    """Draw the quality over the speed relative to the baseline's beam search, with 95 % intervals of the speed.

    The markers of decoders that no other beats in both are filled; the others are hollow.

    Returns:
        A PNG of 1600 x 1000 pixels.
    """
    figure = Figure(figsize=(_PIXELS[0] / _DPI, _PIXELS[1] / _DPI), dpi=_DPI, facecolor=theme.paper)
    FigureCanvasAgg(figure)
    colours = dict(zip(dict.fromkeys(row.family for row in rows), cycle(theme.families), strict=False))
    named = len(colours) <= len(theme.families)  # otherwise colours repeat, and each label names the family
    legend_rows = ceil(len(colours) / _LEGEND_COLUMNS) if named else 0
    axes = figure.add_axes((0.085, 0.13, 0.895, 0.83 - _LEGEND_ROW * legend_rows), facecolor=theme.paper)
    _prepare_axes(axes, rows, theme)
    markers = dict(zip(dict.fromkeys(row.decoder for row in rows), cycle(_MARKERS), strict=False))
    best = pareto(rows)
    for family, colour in colours.items():
        members = sorted((row for row in rows if row.family == family), key=lambda row: row.speed)
        axes.plot([row.speed for row in members], [row.quality for row in members], color=colour, linewidth=1,
                  alpha=0.4, zorder=2)
    for row in rows:
        colour = colours[row.family]
        axes.plot(_interval(row), [row.quality, row.quality], color=colour, linewidth=2.5, alpha=0.3, zorder=2,
                  solid_capstyle="round")
        axes.plot([row.speed], [row.quality], marker=markers[row.decoder], markersize=7, color=colour, zorder=4,
                  markeredgewidth=1.4, markerfacecolor=colour if row.name in best else theme.paper)
    if named:
        for family, colour in colours.items():
            axes.plot([], [], color=colour, marker="o", markersize=6, linewidth=1, label=family)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.005, 1.0), ncols=min(len(colours), _LEGEND_COLUMNS),
                    frameon=False, fontsize=9.5, labelcolor=theme.ink, handlelength=1.4, columnspacing=1.6,
                    borderaxespad=0.2)
    families = {row.decoder: {one.family for one in rows if one.decoder == row.decoder} for row in rows}
    labels = [row.decoder if named or len(families[row.decoder]) == 1 else f"{row.family} {row.decoder}"
              for row in rows]
    _label_points(axes, rows, labels, colours, 9 if named else 5)
    png = io.BytesIO()
    figure.savefig(png, format="png", facecolor=theme.paper, metadata={"Software": None})
    return png.getvalue()


def _prepare_axes(axes: Axes, rows: Sequence[Row], theme: Theme) -> None:
    speeds, scores = [row.speed for row in rows], [row.quality for row in rows]
    lows, highs = zip(*map(_interval, rows), strict=True)
    axes.set_xscale("log", base=2)
    axes.set_xlim(min(min(speeds) / 1.18, min(lows) / 1.05), max(max(speeds) * 1.25, max(highs) * 1.05))
    spread = max(max(scores) - min(scores), 1.0)
    axes.set_ylim(min(scores) - 0.18 * spread, max(scores) + 0.14 * spread)
    low, high = axes.get_xlim()
    octaves = range(floor(log2(low)), ceil(log2(high)) + 1)
    steps = (1, 1.5) if len(octaves) <= 6 else (1,)
    axes.set_xticks([tick for tick in (step * 2.0 ** octave for octave in octaves for step in steps)
                     if low <= tick <= high])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    where = "all sentences" if rows[0].speedup_vs_beam5 is None else "long sentences"
    axes.set_xlabel(f"speed against beam 5 of the baseline ({where}, one at a time)   faster →",
                    color=theme.ink, fontsize=10)
    axes.set_ylabel(f"{rows[0].quality_name}   better →", color=theme.ink, fontsize=10)
    axes.grid(color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=theme.muted, labelsize=9, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _interval(row: Row) -> Sequence[float]:
    """The lower and upper end of the speed's 95 % interval."""
    return row.speedup_vs_beam5_interval or row.speedup_vs_beam5_all_interval


def _label_points(axes: Axes, rows: Sequence[Row], labels: Sequence[str], colours: dict[str, str],
                  size: float) -> None:
    """Write each point's label next to it, where it covers least of the other points and labels."""
    canvas = axes.figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    renderer = canvas.get_renderer()
    frame = axes.get_window_extent(renderer)
    centres = axes.transData.transform([(row.speed, row.quality) for row in rows])
    taken = [Bbox.from_extents(x - 12, y - 12, x + 12, y + 12) for x, y in centres]
    for row, text, centre in zip(rows, labels, centres, strict=True):
        label = axes.annotate(text, (row.speed, row.quality), xytext=(0, 0), textcoords="offset points",
                              ha="center", va="center", fontsize=size, color=colours[row.family], zorder=5)
        extent = label.get_window_extent(renderer)
        width, height = extent.width + 14, extent.height + 4  # with a gap between two labels
        boxes = [Bbox.from_bounds(centre[0] + dx * (width / 2 + reach) - width / 2,
                                  centre[1] + dy * (height / 2 + reach) - height / 2, width, height)
                 for reach in _REACHES for dx, dy in _DIRECTIONS]
        box = min(boxes, key=lambda one: _covered(one, taken) + _outside(one, frame))
        taken.append(box)
        label.set_position(((box.x0 + width / 2 - centre[0]) * 72 / _DPI,
                            (box.y0 + height / 2 - centre[1]) * 72 / _DPI))
        if boxes.index(box) >= 2 * len(_DIRECTIONS):
            ends = axes.transData.inverted().transform([centre, np.clip(centre, box.min, box.max)])
            axes.plot(*ends.T, color=colours[row.family], linewidth=0.6, alpha=0.6, zorder=3)


def _covered(box: Bbox, taken: Sequence[Bbox]) -> float:
    overlaps = [Bbox.intersection(box, other) for other in taken]
    return sum(overlap.width * overlap.height for overlap in overlaps if overlap is not None)


def _outside(box: Bbox, frame: Bbox) -> float:
    return box.width * box.height - _covered(box, [frame])
