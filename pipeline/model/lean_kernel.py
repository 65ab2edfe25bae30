"""A decoder step of a small model on a CPU, compiled: all layers in one call.

Such a step is thirty operations of a few microseconds each, and starting an operation costs as much as the arithmetic
in it. Here the layers are loops that a compiler turns into vector instructions. Every row is summed up in the same
order whatever rows stand beside it, so the states of a token are the same bits in any batch and behind any draft.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from pipeline.model.matrix_kernel import affine

Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_SUM = {"contract", "nsz", "reassoc"}  # sums of one row's own numbers, in an order that depends on their count alone


@njit(cache=True, nogil=True, error_model="numpy")
def advance(tokens: Ints, embeddings: Floats, positions: Floats, norm: Floats, layers: Floats, past: Floats,
            source: Floats, lengths: Ints, mask: Bools, source_mask: Bools, pre: bool, relu: bool,
            hidden: Floats) -> None:
    """Read the next n tokens of every row and write the decoder's last states into `hidden` (R, n, D).

    Args:
        tokens: (R, n).
        embeddings: (V, D), scaled; what is no token must not come here, for nothing is checked.
        positions: (T, D), from the first slot on.
        norm: (2, D), weight and bias of the final normalisation, where `pre`.
        layers, past, source, lengths, mask, source_mask, pre, relu: see `decode`.
    """
    R, n, D = hidden.shape
    for r in range(R):
        for i in range(n):
            token, place = tokens[r, i], lengths[r] + i
            for d in range(D):
                hidden[r, i, d] = embeddings[token, d] + positions[place, d]
    decode(hidden, layers, past, source, lengths, mask, source_mask, pre, relu)
    if pre:
        rows = hidden.reshape(R * n, D)
        normalise(rows, norm, True, rows)


@njit(cache=True, nogil=True, error_model="numpy")
def decode(x: Floats, layers: Floats, past: Floats, source: Floats, lengths: Ints, mask: Bools, source_mask: Bools,
           pre: bool, relu: bool) -> None:
    """All decoder layers over the next n tokens of every row, whose keys and values are written into the past.

    Args:
        x: (R, n, D) embeddings; changed into the last layer's output, before the final normalisation.
        layers: (L, P), the parameters of every layer, as `lean.pack` puts them together.
        past: (L, 2, R, heads, capacity, D / heads), keys and values; changed.
        source: (L, 2, B, heads, S, D / heads), B a divisor of R: neighbouring rows share a sentence.
        lengths: (R,) tokens of every row's past.
        mask: (R or 1, n or 1, T), true where a token may see another; no rows: everywhere.
        source_mask: (B, 1, S), true where there is a piece; no rows: everywhere.
        pre, relu: see `lean.Style`.
    """
    R, n, D = x.shape
    L, _, _, heads, _, depth = past.shape
    beams = R // source.shape[2]
    F = (layers.shape[1] - (6 * D * D + 6 * D + 7 * D)) // (2 * D + 1)
    rows = x.reshape(R * n, D)
    normed, moved = np.empty_like(rows), np.empty_like(rows)
    projected, inner = np.empty((R * n, 3 * D), x.dtype), np.empty((R * n, F), x.dtype)
    most = max(source.shape[4], lengths.max() + n)
    weights = np.empty(most, x.dtype)
    for layer in range(L):
        flat, at = layers[layer], 0

        own_norm, at = flat[at:at + 2 * D].reshape(2, D), at + 2 * D
        weight, at = flat[at:at + 3 * D * D].reshape(D, 3 * D), at + 3 * D * D
        bias, at = flat[at:at + 3 * D], at + 3 * D
        normalise(rows, own_norm, pre, normed)
        affine(normed, weight, bias, projected)
        for r in range(R):
            for i in range(n):
                for part in range(2):
                    for head in range(heads):
                        begin = (1 + part) * D + head * depth
                        past[layer, part, r, head, lengths[r] + i] = projected[r * n + i, begin:begin + depth]
        for r in range(R):
            for i in range(n):
                visible = mask[r % len(mask), i % mask.shape[1]] if len(mask) else mask.reshape(-1)
                row = r * n + i
                _attend(projected[row, :D], past[layer, 0, r], past[layer, 1, r], lengths[r] + n, visible, weights,
                        moved[row])
        weight, at = flat[at:at + D * D].reshape(D, D), at + D * D
        bias, at = flat[at:at + D], at + D
        affine(moved, weight, bias, normed)
        _leave(rows, normed, own_norm, pre)

        norm, at = flat[at:at + 2 * D].reshape(2, D), at + 2 * D
        weight, at = flat[at:at + D * D].reshape(D, D), at + D * D
        bias, at = flat[at:at + D], at + D
        normalise(rows, norm, pre, normed)
        queries = projected.reshape(-1)[:R * n * D].reshape(R * n, D)
        affine(normed, weight, bias, queries)
        for row in range(R * n):
            b = row // n // beams
            visible = source_mask[b, 0] if len(source_mask) else source_mask.reshape(-1)
            _attend(queries[row], source[layer, 0, b], source[layer, 1, b], source.shape[4], visible, weights,
                    moved[row])
        weight, at = flat[at:at + D * D].reshape(D, D), at + D * D
        bias, at = flat[at:at + D], at + D
        affine(moved, weight, bias, normed)
        _leave(rows, normed, norm, pre)

        norm, at = flat[at:at + 2 * D].reshape(2, D), at + 2 * D
        weight, at = flat[at:at + D * F].reshape(D, F), at + D * F
        bias, at = flat[at:at + F], at + F
        normalise(rows, norm, pre, normed)
        affine(normed, weight, bias, inner)
        _activate(inner, relu)
        weight, at = flat[at:at + D * F].reshape(F, D), at + D * F
        bias, at = flat[at:at + D], at + D
        affine(inner, weight, bias, normed)
        _leave(rows, normed, norm, pre)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUM)
def _attend(query: Floats, keys: Floats, values: Floats, count: int, visible: Bools, weights: Floats,
            out: Floats) -> None:
    """Write into out (D,) what a query (D,) finds in the first `count` of keys and values (heads, T, D / heads).

    `visible` (count,) says which of them it may see; empty: all. `weights` is room for `count` numbers.
    """
    heads, _, depth = keys.shape
    scale = query.dtype.type(1 / math.sqrt(depth))
    for head in range(heads):
        begin = head * depth
        highest = query.dtype.type(-np.inf)
        for t in range(count):
            if len(visible) and not visible[t]:
                continue
            score = query.dtype.type(0)
            for d in range(depth):
                score += query[begin + d] * keys[head, t, d]
            weights[t] = score * scale
            highest = max(highest, weights[t])
        total = query.dtype.type(0)
        for d in range(depth):
            out[begin + d] = 0
        for t in range(count):
            if len(visible) and not visible[t]:
                continue
            weight = np.exp(weights[t] - highest)
            total += weight
            for d in range(depth):
                out[begin + d] += weight * values[head, t, d]
        inverse = 1 / total
        for d in range(depth):
            out[begin + d] *= inverse


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
