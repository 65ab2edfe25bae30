"""Viterbi on a CPU, compiled: a step of PyTorch costs as much as a sentence's search.

The arrays are those of `chain.Edges`. All floats have one type, so every sum is rounded like PyTorch's.
"""


import numpy as np

from pipeline.compiled import njit
from pipeline.engine.reading import Floats, Ints


@njit(cache=True, nogil=True)
def best_path(first: Floats, inner: Floats, end: Floats, divisors: Floats,
              scores: Floats, lengths: Ints, states: Ints) -> int:
    """Write the best path of every chain into `scores` (B,), `lengths` (B,) and `states` (B, N), zeros before.

    Returns:
        The first chain in which a score that can be reached is NaN or +inf, and -1 where there is none.
    """
    B, N, K = end.shape
    reached = np.empty((N, K), first.dtype)
    for b in range(B):
        used = N  # positions after the last possible end do not matter
        while used > 0 and np.all(end[b, used - 1] == -np.inf):
            used -= 1
        if not _forward(first[b], inner[b], reached[:used]):
            return b
        score, length, state = first.dtype.type(-np.inf), 0, 0
        for t in range(used):
            for i in range(K):
                if reached[t, i] != -np.inf:
                    total = (reached[t, i] + end[b, t, i]) / divisors[t]
                    if not total < np.inf:
                        return b
                    if total > score:
                        score, length, state = total, t + 1, i
        scores[b], lengths[b] = score, length
        _backtrace(inner[b], reached, length, state, states[b])
    return -1


@njit(cache=True, nogil=True)
def _forward(first: Floats, inner: Floats, reached: Floats) -> bool:
    """Write the best score of a path to each state into `reached` (N, K); false where a step is NaN or +inf."""
    N, K = reached.shape
    broken = False
    if N:
        reached[0] = first
    for t in range(1, N):
        past, now = reached[t - 1], reached[t]
        now[:] = -np.inf
        for i in range(K):
            so_far, steps = past[i], inner[t - 1, i]  # copied: for all the compiler knows, `past` and `now` overlap
            if so_far == -np.inf:
                continue
            for j in range(K):  # contiguous and without a branch, so that it is vectorised
                score = so_far + steps[j]
                broken |= not score < np.inf
                now[j] = max(now[j], score)
    return not broken


@njit(cache=True, nogil=True)
def _backtrace(inner: Floats, reached: Floats, length: int, state: int, states: Ints) -> None:
    """Write the states of the best path that ends in `state` at its last position."""
    for t in range(length - 1, -1, -1):
        states[t] = state
        if t > 0:
            later, highest = state, -np.inf
            for i in range(reached.shape[1]):
                score = reached[t - 1, i] + inner[t - 1, i, later]
                if score > highest:  # false where it is NaN, after a state that cannot be reached
                    highest, state = score, i
