"""The bookkeeping of draft and verify, compiled: a dozen small array operations would cost a fifth of a small step."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.best import best_of, log_sum
from pipeline.engine.reading import Bools, Floats, Ints
from pipeline.vocabulary import PAD


@njit(cache=True, nogil=True)
def is_acceptable(token: Any, gap: Any, above: Any, beta: int, tau: float) -> Any:
    """Whether a drafted token may take the place of the best one: equations 8 and 9 of Ge et al. (2022).

    Its uncompiled form, `is_acceptable.py_func`, answers for whole tensors, on any device.

    Args:
        token: the drafted token; PAD is never acceptable.
        gap: by how much its logit is below the best one.
        above: how many logits are higher.
        beta, tau: see `prefix.Acceptance`.
    """
    return (token != PAD) & (above < beta) & (gap <= tau)


@njit(cache=True, nogil=True)
def settle(logits: Floats, draft: Ints, beta: int, tau: float, end: int, remaining: Ints, words: Ints, counts: Ints,
           added: Ints, ends: Bools, predicted: Ints,
           sums: npt.NDArray[np.float64]) -> tuple[int, int, bool]:
    """Predict from the verifier's logits, and accept, in one call.

    Args:
        logits: (R, n + 1, V), the verifier's in place of the draft and after it.
        draft: (R, n), PAD where there is none.
        beta, tau: see `prefix.Acceptance.limits`.
        end, remaining, words, counts, added, ends: see `accept`.
        predicted: (R, n + 1), where the verifier's predictions are written; an acceptable drafted token is one.
        sums: (R,), where the summed log-probabilities of the accepted tokens are written.

    Returns:
        See `accept`.
    """
    rows, n = draft.shape
    highest = np.empty(predicted.shape, logits.dtype)
    for r in range(rows):
        for i in range(n + 1):
            row = logits[r, i]
            predicted[r, i] = best_of(row)
            highest[r, i] = row[predicted[r, i]]
            if i < n and beta > 0:
                drafted = row[draft[r, i]]
                if is_acceptable(draft[r, i], highest[r, i] - drafted, _count_above(row, drafted), beta, tau):
                    predicted[r, i] = draft[r, i]
    result = accept(predicted, draft, end, remaining, words, counts, added, ends)
    for r in range(rows):
        sums[r] = 0
        for i in range(added[r]):
            row = logits[r, i]
            sums[r] += row[predicted[r, i]] - log_sum(row, highest[r, i])
    return result


@njit(cache=True, nogil=True)
def accept(predicted: Ints, draft: Ints, end: int, remaining: Ints, words: Ints, counts: Ints, added: Ints,
           ends: Bools) -> tuple[int, int, bool]:
    """Accept each row's predictions up to the first that is not the draft's, the end symbol, and the limit.

    Args:
        predicted: (R, n + 1), the verifier's predictions in place of the draft and after it.
        draft: (R, n).
        end: the end symbol.
        remaining: (R,) tokens that each row may still accept, at least 1; changed.
        words: (R, T), where accepted tokens are written, after the first `counts`.
        counts: (R,) tokens there; changed.
        added: (R,), where the number of accepted tokens is written, at least 1.
        ends: (R,), where it is written whether the row has ended.

    Returns:
        The lowest and the highest count, and whether any row is over: has ended or reached its limit.
    """
    rows, n = draft.shape
    shortest, longest, over = words.shape[1], 0, False
    for r in range(rows):
        kept = 0
        while True:
            token = predicted[r, kept]
            words[r, counts[r] + kept] = token
            kept += 1
            if token == end or kept > n or kept == remaining[r] or token != draft[r, kept - 1]:
                break
        ends[r] = token == end
        counts[r] += kept
        remaining[r] -= kept
        added[r] = kept
        shortest, longest = min(shortest, counts[r]), max(longest, counts[r])
        over |= ends[r] or remaining[r] == 0
    return shortest, longest, over


@njit(cache=True, nogil=True)
def _count_above(values: Floats, bound: Any) -> int:
    count = 0
    for i in range(len(values)):
        count += values[i] > bound
    return count
