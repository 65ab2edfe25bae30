"""A decoder step of a small model on a CPU, compiled: all layers in one call.

Such a step is thirty operations of a few microseconds each, and starting an operation costs as much as the arithmetic
in it. Here the layers are loops that a compiler turns into vector instructions. Every row is summed up in the same
order whatever rows stand beside it, so the states of a token are the same bits in any batch and behind any draft.
"""

import math

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.kernels.attention import attend
from pipeline.kernels.matrix import affine, size
from pipeline.kernels.reading import Floats, Reading

Ints = npt.NDArray[np.int64]

_SUM = {"contract", "nsz", "reassoc"}  # sums of one row's own numbers, in an order that depends on their count alone


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
    for r in range(R):
        for i in range(n):
            if not (0 <= tokens[r, i] < len(packed.embeddings) and lengths[r] + i < len(packed.positions)):
                return False
    for r in range(R):
        for i in range(n):
            token, place = tokens[r, i], lengths[r] + i
            for d in range(D):
                hidden[r, i, d] = packed.embeddings[token, d] + packed.positions[place, d]
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
    for layer in range(L):
        matrix, m, vector, v = reading.packed.matrices[layer], 0, reading.packed.vectors[layer], 0

        own_norm, v = vector[v:v + 2 * D].reshape(2, D), v + 2 * D
        weight, m = matrix[m:], m + size(D, 3 * D)
        scale, bias, v = vector[v:v + 3 * D], vector[v + 3 * D:v + 6 * D], v + 6 * D
        normalise(rows, own_norm, pre, normed)
        affine(normed, weight, scale, bias, projected)
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
        weight, m = matrix[m:], m + size(D, D)
        scale, bias, v = vector[v:v + D], vector[v + D:v + 2 * D], v + 2 * D
        affine(moved, weight, scale, bias, normed)
        _leave(rows, normed, own_norm, pre)

        norm, v = vector[v:v + 2 * D].reshape(2, D), v + 2 * D
        weight, m = matrix[m:], m + size(D, D)
        scale, bias, v = vector[v:v + D], vector[v + D:v + 2 * D], v + 2 * D
        normalise(rows, norm, pre, normed)
        queries = projected.reshape(-1)[:R * n * D].reshape(R * n, D)
        affine(normed, weight, scale, bias, queries)
        for row in range(R * n):
            b = row // n // beams
            visible = source_mask[b, 0] if len(source_mask) else source_mask.reshape(-1)
            attend(queries[row], source[layer, 0, b], source[layer, 1, b], source.shape[4], visible, weights,
                    moved[row])
        weight, m = matrix[m:], m + size(D, D)
        scale, bias, v = vector[v:v + D], vector[v + D:v + 2 * D], v + 2 * D
        affine(moved, weight, scale, bias, normed)
        _leave(rows, normed, norm, pre)

        norm, v = vector[v:v + 2 * D].reshape(2, D), v + 2 * D
        weight, m = matrix[m:], m + size(D, F)
        scale, bias, v = vector[v:v + F], vector[v + F:v + 2 * F], v + 2 * F
        normalise(rows, norm, pre, normed)
        affine(normed, weight, scale, bias, inner)
        _activate(inner, reading.relu)
        weight = matrix[m:]
        scale, bias = vector[v:v + D], vector[v + D:v + 2 * D]
        affine(inner, weight, scale, bias, normed)
        _leave(rows, normed, norm, pre)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUM)
def normalise(x: Floats, norm: Floats, wanted: bool, out: Floats) -> None:
    """Layer normalisation of x (M, D) by weight and bias (2, D), into out, which may be x; a copy unless wanted."""
    M, D = x.shape
    for m in range(M):
        if not wanted:
            out[m] = x[m]
            continue
        mean = x.dtype.type(0)
        for d in range(D):
            mean += x[m, d]
        mean /= x.dtype.type(D)
        variance = x.dtype.type(0)
        for d in range(D):
            variance += (x[m, d] - mean) * (x[m, d] - mean)
        scale = x.dtype.type(1 / math.sqrt(variance / D + 1e-5))
        for d in range(D):
            out[m, d] = (x[m, d] - mean) * scale * norm[0, d] + norm[1, d]


@njit(cache=True, nogil=True, error_model="numpy")
def _leave(x: Floats, moved: Floats, norm: Floats, pre: bool) -> None:
    """The residual sum, and the normalisation where it comes last."""
    for m in range(len(x)):
        for d in range(x.shape[1]):
            x[m, d] += moved[m, d]
    if not pre:
        normalise(x, norm, True, x)


@njit(cache=True, nogil=True, error_model="numpy")
def _activate(x: Floats, relu: bool) -> None:
    """ReLU or GELU, in place."""
    for m in range(len(x)):
        for f in range(x.shape[1]):
            if relu:
                x[m, f] = max(x[m, f], x.dtype.type(0))
            else:
                x[m, f] = x[m, f] * x.dtype.type(0.5 * (1 + math.erf(x[m, f] * math.sqrt(0.5))))
