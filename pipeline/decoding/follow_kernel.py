"""The sequential part of a draft, compiled: a few thousand multiplications a token, of which half meet a zero."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def follow_links(states: Floats, of_states: Floats, table: Floats, outer: Floats, outputs: Floats, ids: Ints,
                 last: Ints, tokens: Ints) -> None:
    """Write the best of each place's shortlist behind the token before it; shapes as in `follow`, tokens (R, k)."""
    R, k, D = states.shape
    state = np.empty(D, states.dtype)
    for r in range(R):
        before = last[r]
        for place in range(k):
            state[:] = states[r, place]
            row = table[before]
            for f in range(len(row)):
                inner = of_states[r, place, f] + row[f]
                if inner > 0:
                    state += inner * outer[f]
            highest = -np.inf
            for at in range(ids.shape[2]):
                word = ids[r, place, at]
                score = np.dot(outputs[word], state)
                if score > highest:
                    highest, before = score, word
            tokens[r, place] = before
