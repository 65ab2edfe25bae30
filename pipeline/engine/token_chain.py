"""The sequential part of a draft, compiled: for every token two small products and one onto the vocabulary."""


import numpy as np

from pipeline.compiled import njit
from pipeline.engine.best import best_of
from pipeline.engine.matrix import affine
from pipeline.engine.reading import Floats, Ints, PackedChain


@njit(cache=True, nogil=True)
def choose_chained(states: Floats, last: Ints, chain: PackedChain, tokens: Ints, team: Ints) -> None:
    """Write the best token of each state, given the token before it, into `tokens` (R, k); of equal ones the first.

    Args:
        states: (R, k, D).
        last: (R,), the tokens before the drafts.
        chain: its D and F are multiples of 4.
        team: the threads that share products.
    """
    R, k, D = states.shape
    F, V = chain.table.shape[1], len(chain.output_scale)
    of_states = np.empty((R * k, F), states.dtype)
    affine(states.reshape(R * k, D), chain.of_state, chain.of_state_scale, chain.bias, of_states, team)
    inner, moved = np.empty((R, F), states.dtype), np.empty((R, D), states.dtype)
    logits, nothing = np.empty((R, V), states.dtype), np.zeros(max(D, V), states.dtype)
    for place in range(k):
        for r in range(R):
            row = chain.table[last[r] if place == 0 else tokens[r, place - 1]]
            for f in range(F):
                inner[r, f] = max(of_states[r * k + place, f] + row[f], states.dtype.type(0))
        affine(inner, chain.outer, chain.outer_scale, nothing, moved, team)
        for r in range(R):
            for d in range(D):
                moved[r, d] += states[r, place, d]
        affine(moved, chain.outputs, chain.output_scale, nothing, logits, team)
        for r in range(R):
            tokens[r, place] = best_of(logits[r])
