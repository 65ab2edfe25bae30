"""The encoder of a small model on a CPU, compiled, and the decoder's projection of its states: one call each.

For one sentence it has as many operations as a decoder step, which are as short (`decoder.py`). Every row is summed in
the same order here too: the states of a sentence have the same bits in any batch.
"""

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.block import attention, embed, enter, feed_forward, first_block, leave, normalise
from pipeline.engine.by_address import by_address
from pipeline.engine.matrix import affine
from pipeline.engine.reading import Bools, Floats, Ints, PackedEncoder, PackedSource, Seen


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def encode(tokens: Ints, packed: PackedEncoder, heads: int, pre: bool, activation: int, mask: Bools, states: Floats,
           team: Ints) -> bool:
    """Encode sentences, from ids to the encoder's last states.

    Args:
        tokens: (B, S).
        packed: the encoder.
        heads: of attention.
        pre: whether normalisation comes before each block.
        activation: of the feed-forward blocks, see `plain`.
        mask: (B, 1, S), true where there is a piece; no rows: true everywhere.
        states: (B, S, D), where the states are written.
        team: the threads that share products.

    Returns:
        Whether all tokens are in the vocabulary and have a position; if not, nothing is written.
    """
    B, S, D = states.shape
    if not embed(tokens, np.zeros(B, np.int64), packed.embeddings, packed.positions, states):
        return False
    rows = states.reshape(B * S, D)
    normed, moved, projected = np.empty_like(rows), np.empty_like(rows), np.empty((B * S, 3 * D), states.dtype)
    past, count, first = np.empty((2, heads, S, D // heads), states.dtype), np.full(1, S), np.zeros(1, np.int64)
    origins = np.empty((0, S), np.int64)
    for layer in range(len(packed.matrices)):
        own, own_vectors, matrices, vectors = first_block(packed.matrices[layer], packed.vectors[layer], D, 3 * D)
        enter(rows, own, own_vectors, pre, normed, projected, team)
        for b in range(B):
            sentence = projected[b * S:(b + 1) * S]
            by_heads(sentence[:, D:], past)
            seen = Seen(past[:1], past[1:], first, origins, count, mask[b:b + 1], first)
            attention(sentence, seen, moved[b * S:(b + 1) * S], team)
        leave(rows, moved, own, own_vectors, pre, normed, team)
        feed_forward(rows, matrices, vectors, pre, activation, normed, team)
    if pre:
        normalise(rows, packed.norm, rows)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def project_source(states: Floats, packed: PackedSource, out: Floats, team: Ints) -> None:
    """Write the keys and values of encoded sources (B, S, D) into out (L, 2, B, heads, S, D / heads); see `encode`."""
    B, S, D = states.shape
    projected = np.empty((S, len(packed.bias)), states.dtype)
    for b in range(B):
        affine(states[b], packed.matrix, packed.scale, packed.bias, projected, team)
        for layer in range(len(out)):
            by_heads(projected[:, layer * 2 * D:(layer + 1) * 2 * D], out[layer, :, b])


@njit(cache=True, nogil=True, error_model="numpy")
def by_heads(projected: Floats, out: Floats) -> None:
    """Copy keys and values (S, 2 * D) into out (2, heads, S, D / heads)."""
    _, heads, S, depth = out.shape
    for part in range(2):
        for head in range(heads):
            begin = (part * heads + head) * depth
            for i in range(S):
                for d in range(depth):
                    out[part, head, i, d] = projected[i, begin + d]
