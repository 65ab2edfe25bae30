"""Joins the alignments of two directions: intersection, union and heuristics between them (Koehn, Och and Marcu 2003).

*Grow-diag* starts from the intersection. It visits the chosen links, target words in the outer and source words in the
inner loop, and chooses each of a link's eight neighbours in the union that links a word without a link so far; the same
sweep visits new links after its current position. It sweeps until nothing changes. *Final* then adds the links of the
forward, afterwards of the reverse direction of which either word has no link, *final-and* those of which neither has
one. This is the pseudo-code of Koehn et al. (2005); fast_align's atools visits the union's links instead of the chosen
ones, which differs where two candidates compete for a word.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.links import Links
from pipeline.alignment.settings import Method
from pipeline.compiled import njit
from pipeline.errors import PipelineError

_FORWARD, _REVERSE, _CHOSEN = 1, 2, 4
_RULES: dict[Method, tuple[int, bool, int]] = {
    "forward": (_FORWARD, False, 0), "reverse": (_REVERSE, False, 0), "union": (0, False, 0),
    "intersection": (_FORWARD | _REVERSE, False, 0), "grow-diag": (_FORWARD | _REVERSE, True, 0),
    "grow-diag-final": (_FORWARD | _REVERSE, True, 1), "grow-diag-final-and": (_FORWARD | _REVERSE, True, 2)}
"""Directions that must have a link for it to be chosen initially; whether to grow; how many words of a link *final*
requires to be without a link (0: no final)."""


def symmetrise(forward: Links, reverse: Links, method: Method) -> Links:
    """Join the links of two directions of the same pairs, both as (source, target) positions.

    Returns:
        Links ordered by target, then by source position.

    Raises:
        PipelineError: unequal numbers of pairs.
    """
    if forward.pairs != reverse.pairs:
        raise PipelineError(f"symmetrise: {forward.pairs} pairs forward and {reverse.pairs} in reverse; align the same "
                            "corpus in both directions")
    return Links(*_join(forward, reverse, *_RULES[method]))


@njit(cache=True, nogil=True)
def _join(forward: Links, reverse: Links, needed: int, grow: bool,
          final: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return offsets, source and target positions of the joined links."""
    most = len(forward.source) + len(reverse.source)
    offsets = np.zeros(len(forward.offsets), np.int64)
    source, target = np.empty(most, np.int32), np.empty(most, np.int32)
    count = 0
    for pair in range(len(offsets) - 1):
        grid = _grid(forward, reverse, pair)  # rows: target words
        source_linked, target_linked = np.zeros(grid.shape[1], np.bool_), np.zeros(grid.shape[0], np.bool_)
        for t in range(grid.shape[0]):
            for s in range(grid.shape[1]):
                if grid[t, s] and grid[t, s] & needed == needed:
                    grid[t, s] |= _CHOSEN
                    source_linked[s] = target_linked[t] = True
        while grow and _sweep(grid, source_linked, target_linked):
            pass
        if final:
            for direction in (_FORWARD, _REVERSE):
                _add_rest(grid, source_linked, target_linked, direction, final)
        for t in range(grid.shape[0]):
            for s in range(grid.shape[1]):
                if grid[t, s] & _CHOSEN:
                    source[count], target[count] = s, t
                    count += 1
        offsets[pair + 1] = count
    return offsets, source[:count].copy(), target[:count].copy()


@njit(cache=True, nogil=True)
def _grid(forward: Links, reverse: Links, pair: int) -> NDArray[np.uint8]:
    """Return the directions that link each target word (rows) with each source word (columns)."""
    rows = columns = 0
    for link in range(forward.offsets[pair], forward.offsets[pair + 1]):
        rows, columns = max(rows, forward.target[link] + 1), max(columns, forward.source[link] + 1)
    for link in range(reverse.offsets[pair], reverse.offsets[pair + 1]):
        rows, columns = max(rows, reverse.target[link] + 1), max(columns, reverse.source[link] + 1)
    grid = np.zeros((rows, columns), np.uint8)
    for link in range(forward.offsets[pair], forward.offsets[pair + 1]):
        grid[forward.target[link], forward.source[link]] |= _FORWARD
    for link in range(reverse.offsets[pair], reverse.offsets[pair + 1]):
        grid[reverse.target[link], reverse.source[link]] |= _REVERSE
    return grid


@njit(cache=True, nogil=True)
def _sweep(grid: NDArray[np.uint8], source_linked: NDArray[np.bool_], target_linked: NDArray[np.bool_]) -> bool:
    """Choose neighbours of chosen links; return whether there were any."""
    rows, columns = grid.shape
    grown = False
    for t in range(rows):
        for s in range(columns):
            if not grid[t, s] & _CHOSEN:
                continue
            for dt, ds in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                y, x = t + dt, s + ds
                if (0 <= y < rows and 0 <= x < columns and grid[y, x] and not grid[y, x] & _CHOSEN
                        and not (source_linked[x] and target_linked[y])):
                    grid[y, x] |= _CHOSEN
                    source_linked[x] = target_linked[y] = grown = True
    return grown


@njit(cache=True, nogil=True)
def _add_rest(grid: NDArray[np.uint8], source_linked: NDArray[np.bool_], target_linked: NDArray[np.bool_],
              direction: int, free: int) -> None:
    """Choose the links of one direction of which at least `free` words are without a link."""
    for t in range(grid.shape[0]):
        for s in range(grid.shape[1]):
            if grid[t, s] & direction and (not source_linked[s]) + (not target_linked[t]) >= free:
                grid[t, s] |= _CHOSEN
                source_linked[s] = target_linked[t] = True
