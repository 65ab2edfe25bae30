"""The bookkeeping of draft and verify, compiled: a dozen small array operations cost a fifth of a small model's
step."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.best import best_of, log_sum
from pipeline.vocabulary import PAD

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]


@njit(cache=True, nogil=True)
def settle(logits: Floats, draft: Ints, beta: int, tau: float, end: int, left: Ints, words: Ints, counts: Ints,
           added: Ints, ends: npt.NDArray[np.bool_], verdict: Ints,
           sums: npt.NDArray[np.float64]) -> tuple[int, int, bool]:
    """Judge a draft and accept what stands, in one call.

    Args:
        logits: (R, n + 1, V), the verifier's in place of the draft and behind it.
        draft: (R, n), PAD where there is none.
        beta, tau: see `prefix.Acceptance`.
        end, left, words, counts, added, ends: see `accept`.
        verdict: (R, n + 1), where is written what the verifier says.
        sums: (R,), where the summed log-probabilities of the accepted tokens are written.

    Returns:
        See `accept`.
    """
    rows, n = draft.shape
    highest = np.empty(verdict.shape, logits.dtype)
    for r in range(rows):
        for i in range(n + 1):
            row = logits[r, i]
            verdict[r, i] = best_of(row)
            highest[r, i] = row[verdict[r, i]]
            if i < n and beta > 1 and tau > 0 and draft[r, i] != PAD:
                drafted = row[draft[r, i]]
                if highest[r, i] - drafted <= tau and _count_above(row, drafted) < beta:
                    verdict[r, i] = draft[r, i]
    result = accept(verdict, draft, end, left, words, counts, added, ends)
    for r in range(rows):
        sums[r] = 0
        for i in range(added[r]):
            row = logits[r, i]
            sums[r] += row[verdict[r, i]] - log_sum(row, highest[r, i])
    return result


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
def _count_above(values: Floats, bound: Any) -> int:
    count = 0
    for i in range(len(values)):
        count += values[i] > bound
    return count
