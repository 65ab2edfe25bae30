"""The bookkeeping of draft and verify, compiled: a dozen small array operations cost a fifth of a small model's
step."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]

_LOWEST = -50.0
"""Exponentials of less are as good as nothing beside the highest, which is 1."""


@njit(cache=True, nogil=True)
def accept(verdict: Ints, draft: Ints, end: int, left: Ints, words: Ints, counts: Ints, added: Ints,
           ends: npt.NDArray[np.bool_]) -> tuple[int, int, bool]:
    """Accept of every row's verdict the tokens up to the first that is not the draft's, the end, and the limit.

    Args:
        verdict: (R, n + 1), what the verifier says in place of the draft and behind it.
        draft: (R, n).
        end: the end symbol.
        left: (R,) tokens that a row may still accept, at least 1; changed.
        words: (R, T), where accepted tokens are written, behind the `counts`.
        counts: (R,) tokens there; changed.
        added: (R,), where the number of accepted tokens is written, at least 1.
        ends: (R,), where it is written whether the row has ended.

    Returns:
        The shortest and the longest count, and whether a row is over: has ended or met its limit.
    """
    rows, n = draft.shape
    shortest, longest, over = words.shape[1], 0, False
    for r in range(rows):
        kept = 0
        while True:
            token = verdict[r, kept]
            words[r, counts[r] + kept] = token
            kept += 1
            if token == end or kept > n or kept == left[r] or token != draft[r, kept - 1]:
                break
        ends[r] = token == end
        counts[r] += kept
        left[r] -= kept
        added[r] = kept
        shortest, longest = min(shortest, counts[r]), max(longest, counts[r])
        over |= ends[r] or left[r] == 0
    return shortest, longest, over


@njit(cache=True, nogil=True)
def log_probabilities(logits: Floats, tokens: Ints, count: Ints, sums: npt.NDArray[np.float64]) -> None:
    """Write into `sums` the log-probability of the first `count` (R,) of tokens (R, n) under logits (R, n, V)."""
    for r in range(len(tokens)):
        sums[r] = 0
        for i in range(count[r]):
            row = logits[r, i]
            highest = row[0]
            for word in range(1, len(row)):
                highest = max(highest, row[word])
            sums[r] += row[tokens[r, i]] - highest - math.log(_sum_exponentials(row, highest))


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc", "nnan", "arcp"})
def _sum_exponentials(values: Floats, highest: float) -> float:
    """The sum of exp(value - highest), to 12 digits.

    exp(x) is the 1024th power of exp(x / 1024), which six terms of its series give: no branch and no table, so that it
    becomes vector instructions, which a library's function in a loop does not.
    """
    total = 0.0
    for i in range(len(values)):
        x = float(values[i]) - highest
        x = (x if x > _LOWEST else _LOWEST) / 1024
        power = 1 + x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6)))))
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        total += power
    return total
