"""A sentence with its grid, for the terminal, the picture and the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from pipeline.corpus.padding import pad_sources
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.jacobi.grid import Cell, Edge, Grid, dependencies, jacobi_grid
from pipeline.text_model import TextModel


@dataclass(frozen=True)
class Inspected:
    """A sentence, its translation and the iterates that led to it."""

    source: str
    translation: str
    grid: Grid
    pieces: Sequence[str]
    """Of the target vocabulary, by id."""
    warning: str | None = None
    """The source or the translation was cut."""

    @cached_property
    def edges(self) -> list[Edge]:
        """The edges of the dependency graph."""
        return dependencies(self.grid.settled)

    @property
    def summary(self) -> str:
        """Tokens and iterations, in words."""
        grid = self.grid
        m, iterations = len(grid.tokens), grid.iterations
        return (f"{_count(m, 'token')} in {_count(iterations, 'iteration')}, {m / iterations:.2f} per iteration; "
                f"{sum(grid.together)} settled together with others")


def inspect(model: TextModel, limit: LengthLimit, sentence: str) -> Inspected:
    """Translate a sentence and keep all iterates.

    Args:
        model: of one word per step.
        limit: the longest output.
        sentence: of the source language.

    Raises:
        PipelineError: it has no words, or the model cannot be iterated; see `jacobi_grid`.
    """
    ids, = model.encode([sentence])
    if not ids:
        raise PipelineError(f"sentence: {sentence!r} has no words; give one that has")
    device = next(model.network.buffers()).device
    grid = jacobi_grid(model.network, pad_sources([ids], model.longest).to(device), limit)
    words, lengths = model.network.order.restore(torch.tensor([grid.tokens]))
    text = model.text.decode_target(words[0, :int(lengths[0])].tolist())
    return Inspected(sentence, text, grid, model.text.target_pieces, model.warning(len(ids), grid.ended))


_GAP, _MARGIN = 2, 5
"""Spaces between two columns; the width of the iteration's number with its spaces."""


def render(inspected: Inspected, width: int) -> str:
    """The grid as text, in bands that are as wide as the terminal.

    A band has some positions, and the iterations in which one of them settles.

    Args:
        width: in letters.
    """
    grid = inspected.grid
    texts = [[_sign(cell, number, settled).format(inspected.pieces[cell.token])
              for cell, settled in zip(row, grid.settled, strict=True)] for number, row in enumerate(grid.rows, 1)]
    lines = [f"  {inspected.source}"]
    for band in _bands([_column_width(column, grid) for column in zip(*texts, strict=True)], width - _MARGIN):
        lines += ["", _row("", [str(position + 1) for position in band], band)]
        lines += [_row(str(number), [texts[number - 1][position] for position in band], band)
                  for number in sorted({grid.settled[position] for position in band})]
    lines += ["", f"  = {inspected.translation}", f"    {inspected.summary}",
              "    rows: iterations; a token: it settles; ~wrong~; (right, but changes again); · settled before"]
    return "".join(line + "\n" for line in lines)


def _sign(cell: Cell, number: int, settled: int) -> str:
    if number > settled:
        return "·"
    if number == settled:
        return "{}"
    return "({})" if cell.right else "~{}~"


def _column_width(column: Sequence[str], grid: Grid) -> int:
    return max(map(len, (*column, str(len(grid.tokens)))))


def _bands(widths: Sequence[int], room: int) -> list[dict[int, int]]:
    """Positions with the widths of their columns, in bands that fit the room or hold one position."""
    bands: list[dict[int, int]] = []
    remaining = 0
    for position, width in enumerate(widths):
        if not bands or remaining < width:
            bands.append({})
            remaining = room
        bands[-1][position] = width
        remaining -= width + _GAP
    return bands


def _row(head: str, texts: Sequence[str], band: dict[int, int]) -> str:
    cells = [text.ljust(width) for text, width in zip(texts, band.values(), strict=True)]
    return (head.rjust(_MARGIN - _GAP) + " " * _GAP + (" " * _GAP).join(cells)).rstrip()


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
