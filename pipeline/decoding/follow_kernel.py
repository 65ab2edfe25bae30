"""The sequential part of a draft, compiled: some thousands of multiplications a token, of which half meet a zero."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def follow_links(logits: Floats, states: Floats, of_states: Floats, table: Floats, outer: Floats, outputs: Floats,
                 last: Ints, shortlist: int, tokens: Ints) -> None:
    """Write the best token of each place behind the one before it into `tokens` (R, k).

    Args:
        logits: (R, k, V), of the states alone, by whose best the words of a place are shortlisted.
        states: (R, k, D).
        of_states, table, outer, outputs: see `model.token_chain.Links`.
        last: (R,), the tokens behind which the drafts stand.
        shortlist: words a place, at most V.
    """
    R, k, D = states.shape
    state = np.empty(D, states.dtype)
    scores, words = np.empty(shortlist, logits.dtype), np.empty(shortlist, np.int64)
    for r in range(R):
        before = last[r]
        for place in range(k):
            state[:] = states[r, place]
            row = table[before]
            for f in range(len(row)):
                inner = of_states[r, place, f] + row[f]
                if inner > 0:
                    for d in range(D):
                        state[d] += inner * outer[f, d]
            _best(logits[r, place], scores, words)
            highest = logits.dtype.type(-np.inf)
            for word in words:
                score = logits.dtype.type(0)
                for d in range(D):
                    score += outputs[word, d] * state[d]
                if score > highest:
                    highest, before = score, word
            tokens[r, place] = before


@njit(cache=True, nogil=True)
def _best(logits: Floats, scores: Floats, words: Ints) -> None:
    """Write the highest of the logits and their words, in any order; of equal ones the first."""
    n = len(words)
    scores[:] = logits[:n]
    words[:] = np.arange(n)
    lowest = scores.argmin()
    for word in range(n, len(logits)):
        if logits[word] > scores[lowest]:
            scores[lowest], words[lowest] = logits[word], word
            lowest = scores.argmin()
