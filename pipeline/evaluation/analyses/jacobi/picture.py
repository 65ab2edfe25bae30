"""The picture of a grid and its dependency graph, as in Figure 4 of the paper: PNG and SVG."""

from math import sqrt
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path

from pipeline.evaluation.analyses.chart import COLOURS, THEME
from pipeline.evaluation.analyses.jacobi.grid import Cell
from pipeline.evaluation.analyses.jacobi.sentence import Inspected

SINGLE, TOGETHER = COLOURS[0], COLOURS[4]
"""Colours of a token that is the only one to settle in its iteration, and of one that settles together with others."""
_DPI, _PIXELS = 160, 30_000_000
"""The resolution, and the most pixels of the picture: long sentences are drawn with fewer dots per inch."""
_ROW, _LEFT, _RIGHT, _LINE = 0.36, 0.62, 0.2, 0.22
"""Inches: the height of a row, the margins to the left and right of the cells, and the height of a line of text."""
_LETTER, _LETTERS = 0.075, 14
"""The width of a letter in inches, and how many letters of a piece are shown."""


def draw(inspected: Inspected) -> Figure:
    """Draw the sentence, the graph, and the grid below it. A unit of the axes is an inch."""
    grid = inspected.grid
    names = [_short(inspected.pieces[token]) for token in grid.tokens]
    longest = max(len(_short(inspected.pieces[cell.token])) for row in grid.rows for cell in row)
    column = max(0.55, _LETTER * longest + 0.14)
    width = max(_LEFT + column * len(names) + _RIGHT, 6.8)
    texts = [(line, colour) for text, colour in ((inspected.source, THEME.muted), (inspected.translation, THEME.ink))
             for line in wrap(text, int((width - 0.4) / 0.09)) or [""]]
    span = max((edge.after - edge.before for edge in inspected.edges), default=0)
    nodes = 0.25 + _LINE * (len(texts) + 1) + _rise(span) + 0.1
    top = nodes + _ROW + 0.15
    height = top + _ROW * grid.iterations + 0.65
    figure = Figure(figsize=(width, height), dpi=min(_DPI, sqrt(_PIXELS / (width * height))), facecolor=THEME.paper)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()

    for number, (line, colour) in enumerate([*texts, (inspected.summary, THEME.muted)]):
        _write(axes, 0.2, 0.25 + _LINE * number, line, 9, colour, align="left")
    centres = [_LEFT + column * (position + 0.5) for position in range(len(names))]
    hues = [TOGETHER if together else SINGLE for together in grid.together]
    for before, after in inspected.edges:
        _arc(axes, centres[before] + 0.12 * column, centres[after] - 0.12 * column, nodes, _rise(after - before),
             hues[after])
    for centre, name, hue in zip(centres, names, hues, strict=True):
        _box(axes, centre, nodes, column, _mix(hue, 0.14), edge=hue)
        _write(axes, centre, nodes + _ROW / 2, name, 8, THEME.ink, bold=True)
    for number, row in enumerate(grid.rows, 1):
        y = top + _ROW * (number - 1)
        _write(axes, _LEFT - 0.12, y + _ROW / 2, str(number), 7.5, THEME.muted, align="right")
        for centre, cell, settled, hue in zip(centres, row, grid.settled, hues, strict=True):
            _cell(axes, centre, y, column, cell, _short(inspected.pieces[cell.token]), number - settled, hue)
    _legend(axes, top + _ROW * grid.iterations + 0.3)
    return figure


def _cell(axes: Axes, centre: float, y: float, column: float, cell: Cell, name: str, age: int, hue: str) -> None:
    """A cell `age` iterations after its position settled; negative: before that."""
    p = cell.probability
    if age > 0:
        _box(axes, centre, y, column, _mix(hue, 0.04 + 0.16 * p))
        _write(axes, centre, y + _ROW / 2, f"{100 * p:.0f}", 6, THEME.muted)
        return
    if age == 0:
        _box(axes, centre, y, column, _mix(hue, 0.15 + 0.4 * p), edge=hue, line=1.4)
    else:
        _box(axes, centre, y, column, _mix(THEME.muted, 0.04 + 0.16 * p), edge=hue if cell.right else "none",
             dashed=True)
    ink = THEME.ink if age == 0 or cell.right else THEME.muted
    _write(axes, centre, y + 0.38 * _ROW, name, 7.5, ink, bold=age == 0)
    _write(axes, centre, y + 0.76 * _ROW, f"{100 * p:.0f}", 5.5, ink)


def _legend(axes: Axes, y: float) -> None:
    """What colours and numbers mean, below the cells."""
    width = 0.2
    x = _LEFT + width / 2
    for text, fill, edge, dashed in (("settles", _mix(SINGLE, 0.45), SINGLE, False),
                                     ("settles together with others", _mix(TOGETHER, 0.45), TOGETHER, False),
                                     ("has settled", _mix(SINGLE, 0.18), "none", False),
                                     ("wrong", _mix(THEME.muted, 0.18), "none", False),
                                     ("right, but changes again", _mix(THEME.muted, 0.1), SINGLE, True)):
        axes.add_patch(Rectangle((x - width / 2, y - width / 2), width, width, facecolor=fill, edgecolor=edge,
                                 linewidth=1, linestyle="--" if dashed else "-"))
        _write(axes, x + width, y, text, 7, THEME.muted, align="left")
        x += 0.42 + 0.053 * len(text)
    _write(axes, _LEFT, y + _LINE, "rows: iterations; numbers: probability in %; arrows: may depend on", 7, THEME.muted,
           align="left")


def _box(axes: Axes, centre: float, y: float, column: float, fill: str, *, edge: str = "none", line: float = 0.9,
         dashed: bool = False) -> None:
    gap = 0.03
    axes.add_patch(Rectangle((centre - column / 2 + gap, y + gap), column - 2 * gap, _ROW - 2 * gap, facecolor=fill,
                             edgecolor=edge, linewidth=line, linestyle="--" if dashed else "-"))


def _arc(axes: Axes, start: float, end: float, y: float, rise: float, hue: str) -> None:
    curve = Path([(start, y), (start, y - rise * 4 / 3), (end, y - rise * 4 / 3), (end, y)],
                 [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    axes.add_patch(FancyArrowPatch(path=curve, arrowstyle="-|>", mutation_scale=6, color=hue, linewidth=1, alpha=0.8,
                                   shrinkA=0, shrinkB=0))


def _write(axes: Axes, x: float, y: float, text: str, size: float, colour: str, *, align: str = "center",
           bold: bool = False) -> None:
    axes.text(x, y, text, fontsize=size, color=colour, ha=align, va="center_baseline",
              fontweight="bold" if bold else "normal", parse_math=False)


def _rise(span: int) -> float:
    """The height in inches of an arc over `span` columns."""
    return 0.16 + 0.14 * sqrt(span)


def _short(piece: str) -> str:
    return piece if len(piece) <= _LETTERS else piece[:_LETTERS - 1] + "…"


def _mix(colour: str, share: float) -> str:
    """A colour on paper with the opacity `share`."""
    red, green, blue = (share * ink + (1 - share) * paper
                        for ink, paper in zip(to_rgb(colour), to_rgb(THEME.paper), strict=True))
    return to_hex((red, green, blue))
