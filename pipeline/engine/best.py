"""Argmax, top-k and logsumexp of a row, compiled: loops that a compiler turns into vector instructions."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.reading import Floats, Ints

_LOWEST = -50.0
"""Exponentials of lower numbers are negligible compared with the highest one, which is 1."""
_BLOCK = 64
_FAST = {"contract", "nsz", "reassoc", "nnan", "arcp"}


@njit(cache=True, nogil=True)
def score_best(logits: Floats, words: Ints, scores: npt.NDArray[np.float64]) -> None:
    """Write the best word of every row of logits (M, V) into words (M,), and its log-probability into scores (M,)."""
    for m in range(len(words)):
        words[m] = best_of(logits[m])
        highest = logits[m, words[m]]
        scores[m] = highest - log_sum(logits[m], highest)


@njit(cache=True, nogil=True)
def best_of(values: Floats) -> int:
    """The index of the highest value, the first of equal ones.

    Few blocks hold a value above the highest so far, and a vector comparison finds out whether one does.
    """
    best, highest, blocks = 0, values[0], len(values) // _BLOCK * _BLOCK
    for begin in range(0, blocks, _BLOCK):
        above = 0
        for i in range(begin, begin + _BLOCK):
            above |= values[i] > highest
        if above:
            for i in range(begin, begin + _BLOCK):
                if values[i] > highest:
                    best, highest = i, values[i]
    for i in range(blocks, len(values)):
        if values[i] > highest:
            best, highest = i, values[i]
    return best


@njit(cache=True, nogil=True)
def best_places(values: Floats, excluded: int, places: Ints) -> None:
    """Write the indices of the k highest values, highest first, the first of equal ones first.

    Args:
        values: at least k, and one more where one is excluded.
        excluded: an index that must not be among them; -1: none.
        places: (k,), where the indices are written.
    """
    k, count = len(places), 0
    for begin in range(0, len(values), _BLOCK):
        end, above = min(begin + _BLOCK, len(values)), count < k
        if not above:
            lowest = values[places[k - 1]]
            for i in range(begin, end):
                above |= values[i] > lowest
        if above:
            for i in range(begin, end):
                if i != excluded and (count < k or values[i] > values[places[k - 1]]):
                    at, count = min(count, k - 1), min(count + 1, k)
                    while at > 0 and values[i] > values[places[at - 1]]:
                        places[at] = places[at - 1]
                        at -= 1
                    places[at] = i


@njit(cache=True, nogil=True)
def log_sum(values: Floats, highest: Any) -> float:
    """The logsumexp of values, the highest of which is known."""
    return float(highest) + math.log(_sum_exponentials(values, highest))


@njit(cache=True, nogil=True, fastmath=_FAST)
def _sum_exponentials(values: Floats, highest: float) -> float:
    total = 0.0
    for i in range(len(values)):
        total += exponential(float(values[i]) - highest)
    return total


@njit(cache=True, nogil=True, fastmath=_FAST)
def exponential(x: float) -> float:
    """exp(x) for x from `_LOWEST` to 0; for lower x exp(_LOWEST).

    It is the 256th power of exp(x / 256), for which eight terms of the series suffice: the relative error is at most
    1e-13 down to -10 and 2e-8 at -50, small against the highest one, which is 1. Without a branch or a table it becomes
    vector instructions, unlike calls of a library's function.
    """
    x = (x if x > _LOWEST else _LOWEST) / 256
    power = 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720 + x / 5040))))))
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    return power
