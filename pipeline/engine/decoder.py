"""A decoder step of a small model on a CPU, compiled: all layers in one call.

Such a step is thirty operations of a few microseconds each, and starting an operation costs as much as the arithmetic
in it. Here the layers are loops that a compiler turns into vector instructions. Every row is summed up in the same
order whatever rows stand beside it, so the states of a token are the same bits in any batch and behind any draft.
"""

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.attention import attend
from pipeline.engine.block import embed, enter, feed_forward, leave, normalise
from pipeline.engine.matrix import affine, size
from pipeline.engine.reading import Floats, Reading

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True, error_model="numpy")
def step(tokens: Ints, lengths: Ints, reading: Reading, hidden: Floats, logits: Floats) -> bool:
    """Read the next n tokens of every row, from ids to logits.

    Args:
        tokens, lengths, reading, hidden: see `read`.
        logits: (R, n, V), where what they say is written; of fewer of them, the last ones: (1, M, V).

    Returns:
        See `read`.
    """
    if not read(tokens, lengths, reading, hidden):
        return False
    packed, said = reading.packed, logits.shape[0] * logits.shape[1]
    R, n, D = hidden.shape
    affine(hidden.reshape(R * n, D)[R * n - said:], packed.outputs, packed.output_scale, packed.output_bias,
           logits.reshape(said, len(packed.output_scale)))
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def read(tokens: Ints, lengths: Ints, reading: Reading, hidden: Floats) -> bool:
    """Read the next n tokens of every row, from ids to states.

    Args:
        tokens: (R, n).
        lengths: (R,) tokens of every row's past.
        reading: the decoder; its past changes.
        hidden: (R, n, D), where the decoder's last states are written.

    Returns:
        Whether all tokens are tokens and have a place; if not, nothing is written.
    """
    packed = reading.packed
    R, n, D = hidden.shape
    if not embed(tokens, lengths, packed.embeddings, packed.positions, hidden):
        return False
    decode(hidden, lengths, lengths, reading)
    if reading.pre:
        rows = hidden.reshape(R * n, D)
        normalise(rows, packed.norm, True, rows)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def decode(x: Floats, lengths: Ints, places: Ints, reading: Reading) -> None:
    """All decoder layers over the next n tokens of every row, whose keys and values are written into the past.

    Args:
        x: (R, n, D) embeddings; changed into the last layer's output, before the final normalisation.
        lengths: (R,) tokens of every row's past.
        places: (R,), where a row's first token stands in the mask's N.
        reading: the decoder.
    """
    past, source, mask, source_mask, pre = (reading.past, reading.source, reading.mask, reading.source_mask,
                                            reading.pre)
    R, n, D = x.shape
    L, _, _, heads, _, depth = past.shape
    beams = R // source.shape[2]
    F = reading.packed.vectors.shape[1] // 2 - 10 * D  # behind norms, scales and biases of the other matrices
    rows = x.reshape(R * n, D)
    normed, moved = np.empty_like(rows), np.empty_like(rows)
    projected, inner = np.empty((R * n, 3 * D), x.dtype), np.empty((R * n, F), x.dtype)
    most = max(source.shape[4], lengths.max() + n)
    weights = np.empty(most, x.dtype)
    second = size(D, 3 * D) + size(D, D)  # where the matrices of the second block begin …
    third = second + 2 * size(D, D)  # … and those of the third
    for layer in range(L):
        matrices, vectors = reading.packed.matrices[layer], reading.packed.vectors[layer]

        enter(rows, matrices[:second], vectors[:10 * D], pre, normed, projected)
        for r in range(R):
            for i in range(n):
                for part in range(2):
                    for head in range(heads):
                        begin = (1 + part) * D + head * depth
                        past[layer, part, r, head, lengths[r] + i] = projected[r * n + i, begin:begin + depth]
        for r in range(R):
            for i in range(n):
                visible = mask[r % len(mask), (places[r] + i) % mask.shape[1]] if len(mask) else mask.reshape(-1)
                row = r * n + i
                attend(projected[row, :D], past[layer, 0, r], past[layer, 1, r], lengths[r] + n, visible, weights,
                        moved[row])
        leave(rows, moved, matrices[:second], vectors[:10 * D], pre, normed)

        queries = projected.reshape(-1)[:R * n * D].reshape(R * n, D)
        enter(rows, matrices[second:third], vectors[10 * D:16 * D], pre, normed, queries)
        for row in range(R * n):
            b = row // n // beams
            visible = source_mask[b, 0] if len(source_mask) else source_mask.reshape(-1)
            attend(queries[row], source[layer, 0, b], source[layer, 1, b], source.shape[4], visible, weights,
                    moved[row])
        leave(rows, moved, matrices[second:third], vectors[10 * D:16 * D], pre, normed)

        feed_forward(rows, matrices[third:], vectors[16 * D:], pre, reading.relu, normed, inner)
