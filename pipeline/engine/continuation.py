"""The best continuations of a chain from any of its states, compiled like `viterbi`.

This is Viterbi from right to left. The arrays are those of `chain.Edges`; impossible scores are -inf or NaN.
"""


import numpy as np

from pipeline.compiled import njit
from pipeline.engine.assign import assign
from pipeline.engine.reading import Floats, Ints


@njit(cache=True, nogil=True)
def continuations(first: Floats, inner: Floats, end: Floats, following: Ints, entries: Ints) -> None:
    """Find the best next state of every state, and the best state to enter every position by.

    Args:
        first, inner, end: (B, K), (B, N - 1, K, K) and (B, N, K), see `chain.Edges`.
        following: (B, N, K), written: the state at the next position, -1 where the best path stops.
        entries: (B, N), written: the best state at a position if the states before it are unknown (`first` counts at
            position 0); -1 where no path can end.
    """
    B, N, K = end.shape
    ahead, now = np.empty(K, end.dtype), np.empty(K, end.dtype)
    for b in range(B):
        ahead[:] = -np.inf
        for t in range(N - 1, -1, -1):
            entries[b, t] = -1
            most = -np.inf
            for i in range(K):
                best, state = end[b, t, i], -1
                if not best > -np.inf:
                    best = end.dtype.type(-np.inf)
                if t + 1 < N:
                    for j in range(K):
                        score = inner[b, t, i, j] + ahead[j]
                        if score > best:  # false where it is NaN
                            best, state = score, j
                now[i], following[b, t, i] = best, state
                total = best + first[b, i] if t == 0 else best
                if total > most:
                    most, entries[b, t] = total, i
            assign(now, ahead)


@njit(cache=True, nogil=True)
def read_on(words: Ints, following: Ints, entries: Ints, place: int, last: int, draft: Ints) -> int:
    """Write the words of the best continuation after a row's last word.

    The last word is looked for among the candidates of its own position, of the one before and of the one after, in
    this order: a translation may have gained or lost a word against the lattice. Where it is none of these, the path is
    entered at the next position.

    Args:
        words: (N, K) candidates, none of which comes twice at a position.
        following, entries: (N, K) and (N,), see `continuations`.
        place: the position of the last word; -1 where there is no word yet.
        last: the last word.
        draft: (n,), into the beginning of which the words are written.

    Returns:
        The number of words.
    """
    N, K = words.shape
    t, state, found = place + 1, -1, False
    for at in (place, place - 1, place + 1):
        if found or not 0 <= at < N:
            continue
        for i in range(K):
            if words[at, i] == last:
                t, state, found = at + 1, following[at, i], True
    if not found and t < N:
        state = entries[t]
    count = 0
    while count < len(draft) and state >= 0:
        draft[count] = words[t, state]
        state = following[t, state]
        t, count = t + 1, count + 1
    return count
