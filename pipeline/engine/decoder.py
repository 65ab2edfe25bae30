"""A decoder step of a small model on a CPU, compiled: all layers in one call.

Such a step is thirty operations of a few microseconds each, and starting an operation costs as much as its arithmetic.
Here the layers are loops that a compiler turns into vector instructions. Every row is summed in the same order whatever
the other rows are, so a token's state has the same bits in any batch and after any draft.
"""

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.assign import assign
from pipeline.engine.block import attention, embed, enter, feed_forward, first_block, leave, normalise
from pipeline.engine.by_address import by_address
from pipeline.engine.matrix import affine
from pipeline.engine.reading import Floats, Ints, Reading, Seen


@njit(cache=True, nogil=True, error_model="numpy")
def step(tokens: Ints, lengths: Ints, reading: Reading, hidden: Floats, logits: Floats) -> bool:
    """Read the next n tokens of every row, from ids to logits.

    Args:
        tokens, lengths, reading, hidden: see `read`.
        logits: (R, n, V), written; or (1, M, V) for the last M tokens only.

    Returns:
        See `read`.
    """
    if not read(tokens, lengths, reading, hidden):
        return False
    packed, M = reading.packed, logits.shape[0] * logits.shape[1]
    R, n, D = hidden.shape
    affine(hidden.reshape(R * n, D)[R * n - M:], packed.outputs, packed.output_scale, packed.output_bias,
           logits.reshape(M, len(packed.output_scale)), reading.team)
    return True


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def read(tokens: Ints, lengths: Ints, reading: Reading, hidden: Floats) -> bool:
    """Read the next n tokens of every row, from ids to states.

    Args:
        tokens: (R, n).
        lengths: (R,) tokens of every row's past.
        reading: the decoder; its past changes.
        hidden: (R, n, D), where the decoder's last states are written.

    Returns:
        Whether all tokens are in the vocabulary and have a position; if not, nothing is written.
    """
    packed = reading.packed
    R, n, D = hidden.shape
    if not embed(tokens, lengths, packed.embeddings, packed.positions, hidden):
        return False
    decode(hidden, lengths, lengths, reading)
    if reading.pre:
        rows = hidden.reshape(R * n, D)
        normalise(rows, packed.norm, rows)
    return True


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def decode(x: Floats, lengths: Ints, places: Ints, reading: Reading) -> None:
    """All decoder layers over the next n tokens of every row, whose keys and values are written into the past.

    Args:
        x: (R, n, D) embeddings; changed into the last layer's output, before the final normalisation.
        lengths: (R,) tokens of every row's past.
        places: (R,), the index of a row's first token in the mask's N.
        reading: the decoder.
    """
    past, own, origins, pre = reading.past, reading.own, reading.origins, reading.pre
    R, n, D = x.shape
    L, _, _, heads, _, depth = past.shape
    rows, counts = x.reshape(R * n, D), lengths + n
    for r in range(len(origins)):
        origins[r, lengths[r]:counts[r]] = own[r]
    normed, moved, projected = np.empty_like(rows), np.empty_like(rows), np.empty((R * n, 3 * D), x.dtype)
    for layer in range(L):
        matrices, vectors, _, _ = first_block(reading.packed.matrices[layer], reading.packed.vectors[layer], D, 3 * D)
        enter(rows, matrices, vectors, pre, normed, projected, reading.team)
        for r in range(R):
            for i in range(n):
                for part in range(2):
                    for head in range(heads):
                        begin, slot = (1 + part) * D + head * depth, lengths[r] + i
                        assign(projected[r * n + i, begin:begin + depth], past[layer, part, own[r], head, slot])
        seen = Seen(past[layer, 0], past[layer, 1], own, origins, counts, reading.mask, places)
        attention(projected, seen, moved, reading.team)
        leave(rows, moved, matrices, vectors, pre, normed, reading.team)
        finish_layer(rows, layer, reading, normed, moved, projected)


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def finish_layer(x: Floats, layer: int, reading: Reading, normed: Floats, moved: Floats, projected: Floats) -> None:
    """The blocks of a decoder layer after self-attention, in place: attention to the source and feed-forward.

    Args:
        x: (M, D); neighbouring rows share a source.
        layer: its index.
        reading: the decoder.
        normed, moved: (M, D), overwritten.
        projected: (M, 3 * D), overwritten.
    """
    (M, D), source, pre, team = x.shape, reading.source, reading.pre, reading.team
    _, _, matrices, vectors = first_block(reading.packed.matrices[layer], reading.packed.vectors[layer], D, 3 * D)
    cross, cross_vectors, matrices, vectors = first_block(matrices, vectors, D, D)
    queries = projected.reshape(-1)[:M * D].reshape(M, D)
    enter(x, cross, cross_vectors, pre, normed, queries, team)
    B, S = len(reading.sources), source.shape[4]
    seen = Seen(source[layer, 0], source[layer, 1], reading.sources, reading.origins[:0], np.full(B, S),
                reading.source_mask, np.zeros(B, np.int64))
    attention(queries, seen, moved, team)
    leave(x, moved, cross, cross_vectors, pre, normed, team)
    feed_forward(x, matrices, vectors, pre, reading.activation, normed, team)
