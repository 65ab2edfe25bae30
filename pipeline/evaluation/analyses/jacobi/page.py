"""The interactive page of a sentence's grid and graph, in one file that opens from disk."""

from collections.abc import Sequence
from html import escape
from math import sqrt
from pathlib import Path
from string import Template

from pipeline.evaluation.analyses.jacobi.grid import Cell, Edge
from pipeline.evaluation.analyses.jacobi.sentence import Inspected

GENERATOR = "python -m pipeline ddg"
"""The page's generator, by which the page is recognised."""
_TEMPLATE = Path(__file__).with_name("page.html")
_LETTER, _NARROWEST, _WIDEST, _HEAD = 8.2, 56, 144, 44
"""Pixels: the width of a letter, the least and greatest of a column, and that of the column of iteration numbers."""


def render_page(inspected: Inspected, source_language: str, target_language: str) -> str:
    """Render the sentence as one HTML page without any external address.

    Args:
        inspected: the sentence.
        source_language, target_language: tags for the browser (fonts, screen readers).
    """
    grid, pieces = inspected.grid, inspected.pieces
    longest = max(len(pieces[cell.token]) for row in grid.rows for cell in row)
    column = round(min(max(_LETTER * longest + 22, _NARROWEST), _WIDEST))
    span = max((edge.after - edge.before for edge in inspected.edges), default=0)
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        generator=escape(GENERATOR),
        source_language=escape(source_language), target_language=escape(target_language),
        source=escape(inspected.source), translation=escape(inspected.translation) or "&nbsp;",
        summary=escape(inspected.summary),
        warning="" if inspected.warning is None else f'<p class="warning">{escape(inspected.warning)}</p>',
        column=column, head_column=_HEAD, width=_HEAD + column * len(grid.tokens), height=_rise(span) + 8,
        arcs="\n".join(_arc(edge, grid.together[edge.after], column, _rise(span) + 8) for edge in inspected.edges),
        head="\n".join(_head(position, inspected) for position in range(len(grid.tokens))),
        body="\n".join(_row(number, row, inspected) for number, row in enumerate(grid.rows, 1)),
    )


def _head(position: int, inspected: Inspected) -> str:
    grid = inspected.grid
    before = " ".join(str(edge.before) for edge in inspected.edges if edge.after == position)
    return (f'<th scope="col"{_class(["together"] if grid.together[position] else [])}>'
            f'<button type="button" id="token-{position + 1}" data-settled="{grid.settled[position]}" '
            f'data-before="{before}">{_piece(inspected.pieces[grid.tokens[position]])}</button></th>')


def _row(number: int, row: Sequence[Cell], inspected: Inspected) -> str:
    grid = inspected.grid
    cells = "".join(_cell(cell, inspected.pieces[cell.token], number - settled, together)
                    for cell, settled, together in zip(row, grid.settled, grid.together, strict=True))
    return f'<tr><th scope="row">{number}</th>{cells}</tr>'


def _cell(cell: Cell, piece: str, age: int, together: bool) -> str:
    """A cell `age` iterations after its position settled; negative: before that."""
    classes = ["settles" if age == 0 else "settled" if age > 0 else "lucky" if cell.right else "wrong"]
    if together:
        classes.append("together")
    return (f'<td{_class(classes)} style="--p:{cell.probability:.3f}"><span>{_piece(piece)}</span>'
            f"<small>{100 * cell.probability:.0f}</small></td>")


def _piece(piece: str) -> str:
    return f'<bdi title="{escape(piece)}">{escape(piece)}</bdi>'


def _class(names: Sequence[str]) -> str:
    return f' class="{" ".join(names)}"' if names else ""


def _arc(edge: Edge, together: bool, column: int, height: float) -> str:
    start, end = _HEAD + column * (edge.before + 0.62), _HEAD + column * (edge.after + 0.38)
    bend = height + 4 - _rise(edge.after - edge.before) * 4 / 3
    return (f'<path{_class(["together"] if together else [])} data-before="{edge.before}" data-after="{edge.after}" '
            f'd="M{start:.1f} {height:.0f}C{start:.1f} {bend:.1f} {end:.1f} {bend:.1f} {end:.1f} {height - 5:.0f}" '
            'marker-end="url(#tip)"/>')


def _rise(span: int) -> int:
    """The height in pixels of an arc over `span` columns."""
    return round(14 + 13 * sqrt(span))
