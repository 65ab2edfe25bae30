"""The heads of blockwise decoding on one state, compiled."""

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.matrix import affine
from pipeline.engine.reading import Floats, Ints, PackedHeads


@njit(cache=True, nogil=True)
def head_states(hidden: Floats, heads: PackedHeads, states: Floats, team: Ints) -> None:
    """Write the outputs of the first k heads for a state (1, D) into states (k, D); F and D multiples of 4."""
    inner = np.empty((1, heads.inner_bias.shape[1]), hidden.dtype)
    for head in range(len(states)):
        affine(hidden, heads.inner[head], heads.inner_scale[head], heads.inner_bias[head], inner, team)
        for f in range(inner.shape[1]):
            inner[0, f] = max(inner[0, f], hidden.dtype.type(0))
        affine(inner, heads.outer[head], heads.outer_scale[head], heads.outer_bias[head], states[head:head + 1], team)
        for d in range(states.shape[1]):
            states[head, d] += hidden[0, d]
