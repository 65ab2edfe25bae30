"""The best word of a state, found without multiplying it by most of the vocabulary.

The projection onto the vocabulary is half of a small model's step. Here it is first computed with 8-bit integers, which
reads a quarter of the memory. A bound on the rounding error (the Cauchy-Schwarz inequality) determines which words may
still be the best. Their panels, a few of a hundred, are multiplied exactly, so the result is always that of the exact
projection.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from pipeline.compiled import njit
from pipeline.engine.best import best_of
from pipeline.engine.by_address import by_address
from pipeline.engine.matrix import affine, product
from pipeline.engine.reading import COLUMNS, Floats, Ints, Packed, Screen
from pipeline.engine.rounding import round_rows
from pipeline.engine.tile import multiply

_SAFE = 1.001
"""Lengths are multiplied by this, which exceeds their own rounding error by far."""


@by_address
@njit(cache=True, nogil=True)
def best_words(x: Floats, packed: Packed, logits: Floats, bounds: Floats, words: Ints, team: Ints) -> None:
    """Write the best word of every state, of equal ones the first.

    A decoder that is rounded itself has no screen: all logits are computed, and are exact.

    Args:
        x: (M, D), the decoder's last states.
        packed: the decoder, with its screen.
        logits: (M, V), written: exact in the best word's panel, approximate elsewhere.
        bounds: (M, panels), written: an upper bound of the logits of each panel.
        words: (M,), written.
        team: the threads that share products.
    """
    _find_best(x, packed, packed.outputs, logits, bounds, words, team)


@by_address
@njit(cache=True, nogil=True)
def _screened(x: Floats, packed: Packed, logits: Floats, bounds: Floats, words: Ints, team: Ints) -> None:
    """`best_words` of a decoder with a screen."""
    rows, of_rows = np.empty(x.shape, np.int8), np.empty((len(x), 2), x.dtype)
    round_rows(x, rows, of_rows)
    product(rows, of_rows, packed.screen.panels, packed.screen.scale, packed.output_bias, logits, team)
    for m in range(len(x)):
        _bound(x[m], rows[m], of_rows[m, 0], packed.screen, logits[m], bounds[m])
        first = best_of(bounds[m])
        best = _multiply(x, m, packed, first, logits)
        for panel in range(bounds.shape[1]):
            if bounds[m, panel] >= logits[m, best] and panel != first:
                other = _multiply(x, m, packed, panel, logits)
                if logits[m, other] > logits[m, best] or (logits[m, other] == logits[m, best] and other < best):
                    best = other
        words[m] = best


@njit(cache=True, nogil=True)
def logit_of(x: Floats, m: int, packed: Packed, logits: Floats, word: int) -> float:
    """The exact logit of a word for state m, after `best_words`."""
    _make_exact(x, m, packed, packed.outputs, word // COLUMNS, logits)
    return float(logits[m, word])


@by_address
@njit(cache=True, nogil=True)
def count_above(x: Floats, m: int, packed: Packed, logits: Floats, bounds: Floats, logit: float, most: int) -> int:
    """How many logits of state m are above one of them, after `best_words`; counting stops at `most`."""
    count, screened = 0, bounds.shape[1] > 0
    for panel in range(-(-logits.shape[1] // COLUMNS)):
        if count < most and (not screened or bounds[m, panel] > logit):
            _make_exact(x, m, packed, packed.outputs, panel, logits)
            for value in logits[m, panel * COLUMNS:(panel + 1) * COLUMNS]:
                count += value > logit
    return count


def _find_best(x: Any, packed: Any, outputs: Any, logits: Any, bounds: Any, words: Any, team: Any) -> None:
    """`best_words` by these weights of the projection."""
    raise NotImplementedError("compiled code uses an overload")


@overload(_find_best, inline="always")
def _choose_search(x: Any, packed: Any, outputs: Any, logits: Any, bounds: Any, words: Any, team: Any) -> Any:
    def exact(x: Any, packed: Any, outputs: Any, logits: Any, bounds: Any, words: Any, team: Any) -> None:
        _screened(x, packed, logits, bounds, words, team)

    def rounded(x: Any, packed: Any, outputs: Any, logits: Any, bounds: Any, words: Any, team: Any) -> None:
        affine(x, outputs, packed.output_scale, packed.output_bias, logits, team)
        for m in range(len(x)):
            words[m] = best_of(logits[m])
    return rounded if isinstance(outputs.dtype, types.Integer) else exact


def _make_exact(x: Any, m: Any, packed: Any, outputs: Any, panel: Any, logits: Any) -> None:
    """Make the logits of a panel exact, for state m after `best_words`."""
    raise NotImplementedError("compiled code uses an overload")


@overload(_make_exact, inline="always")
def _choose_panel(x: Any, m: Any, packed: Any, outputs: Any, panel: Any, logits: Any) -> Any:
    def exact(x: Any, m: Any, packed: Any, outputs: Any, panel: Any, logits: Any) -> None:
        _multiply(x, m, packed, panel, logits)

    def rounded(x: Any, m: Any, packed: Any, outputs: Any, panel: Any, logits: Any) -> None:
        pass
    return rounded if isinstance(outputs.dtype, types.Integer) else exact


@njit(cache=True, nogil=True)
def _multiply(x: Floats, m: int, packed: Packed, panel: int, logits: Floats) -> int:
    """Multiply a state by a panel exactly, and return the panel's best word."""
    multiply(1, x, x[:0], m, packed.outputs, panel, packed.output_scale, packed.output_bias, logits, 0, x.shape[1],
             False)
    begin = panel * COLUMNS
    return begin + best_of(logits[m, begin:begin + COLUMNS])


@njit(cache=True, nogil=True)
def _bound(x: Floats, rounded: npt.NDArray[np.int8], factor: Any, screen: Screen, guesses: Floats,
           bounds: Floats) -> None:
    """Write an upper bound of every panel's logits: xw = x'w' + x(w - w') + (x - x')w' for rounded x' and w'."""
    tiny = np.finfo(x.dtype).eps
    length, lost = _lengths(x, rounded, factor)
    _highest(guesses, bounds)
    for panel in range(len(bounds)):
        if bounds[panel] > -np.inf:  # else all of its words are forbidden
            doubt = length * screen.lost[panel] + (lost + 4 * tiny * length) * screen.lengths[panel]
            bounds[panel] += doubt + 8 * tiny * (abs(bounds[panel]) + doubt)


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _lengths(x: Floats, rounded: npt.NDArray[np.int8], factor: Any) -> tuple[float, float]:
    """Upper bounds of the length of x (D,) and of its rounding error."""
    exact, lost = x.dtype.type(0), x.dtype.type(0)
    for d in range(len(x)):
        difference = x[d] - factor * x.dtype.type(rounded[d])
        exact += x[d] * x[d]
        lost += difference * difference
    return _SAFE * math.sqrt(exact), _SAFE * math.sqrt(lost)


@njit(cache=True, nogil=True, fastmath={"nsz", "nnan"})
def _highest(guesses: Floats, highest: Floats) -> None:
    """Write the highest guess of every panel."""
    for panel in range(len(highest)):
        begin = panel * COLUMNS
        top = guesses[begin]
        if begin + COLUMNS <= len(guesses):
            for i in range(COLUMNS):
                top = max(top, guesses[begin + i])
        else:
            for i in range(begin, len(guesses)):
                top = max(top, guesses[i])
        highest[panel] = top
