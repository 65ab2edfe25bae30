"""The blocks of a layer, compiled, as encoder and decoder share them: what stands before and behind attention."""

import math

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.matrix import affine, size
from pipeline.engine.reading import Floats, Panels

Ints = npt.NDArray[np.int64]

_SUM = {"contract", "nsz", "reassoc"}  # sums of one row's own numbers, in an order that depends on their count alone


@njit(cache=True, nogil=True, error_model="numpy")
def embed(tokens: Ints, places: Ints, embeddings: Floats, positions: Floats, out: Floats) -> bool:
    """Write into out (R, n, D) the sums of the vectors of tokens and of their places.

    Args:
        tokens: (R, n).
        places: (R,) of the first token of every row.
        embeddings: (V, D), scaled.
        positions: (T, D).

    Returns:
        Whether all tokens are tokens and have a place; if not, nothing is written.
    """
    R, n, D = out.shape
    for r in range(R):
        for i in range(n):
            if not (0 <= tokens[r, i] < len(embeddings) and places[r] + i < len(positions)):
                return False
    for r in range(R):
        for i in range(n):
            token, place = tokens[r, i], places[r] + i
            for d in range(D):
                out[r, i, d] = embeddings[token, d] + positions[place, d]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def enter(x: Floats, matrices: Panels, vectors: Floats, pre: bool, normed: Floats, out: Floats) -> None:
    """The first linear map of a block, behind the normalisation where that comes first.

    Args:
        x: (M, D).
        matrices: both of the block, one behind the other.
        vectors: weight and bias of its norm, and scale and bias of the two.
        pre: whether normalisation comes first.
        normed: (M, D), where what is multiplied is written.
        out: (M, N).
    """
    D, N = x.shape[1], out.shape[1]
    normalise(x, vectors[:2 * D].reshape(2, D), pre, normed)
    affine(normed, matrices, vectors[2 * D:2 * D + N], vectors[2 * D + N:2 * D + 2 * N], out)


@njit(cache=True, nogil=True, error_model="numpy")
def leave(x: Floats, inner: Floats, matrices: Panels, vectors: Floats, pre: bool, moved: Floats) -> None:
    """The last linear map of a block and the residual sum, and the normalisation where it comes last.

    Args:
        x: (M, D); changed.
        inner: (M, K).
        matrices, vectors, pre: of the block; see `enter`.
        moved: (M, D), where the product is written.
    """
    D, Q = x.shape[1], len(vectors)
    affine(inner, matrices[len(matrices) - size(inner.shape[1], D):], vectors[Q - 2 * D:Q - D], vectors[Q - D:], moved)
    for m in range(len(x)):
        for d in range(D):
            x[m, d] += moved[m, d]
    if not pre:
        normalise(x, vectors[:2 * D].reshape(2, D), True, x)


@njit(cache=True, nogil=True, error_model="numpy")
def feed_forward(x: Floats, matrices: Panels, vectors: Floats, pre: bool, relu: bool, room: Floats,
                 inner: Floats) -> None:
    """A feed-forward block over x (M, D), in place, with ReLU or GELU.

    Args:
        matrices, vectors, pre: of the block; see `enter`.
        room: (M, D), overwritten.
        inner: (M, F), overwritten.
    """
    enter(x, matrices, vectors, pre, room, inner)
    _activate(inner, relu)
    leave(x, inner, matrices, vectors, pre, room)


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
def _activate(x: Floats, relu: bool) -> None:
    """ReLU or GELU, in place."""
    for m in range(len(x)):
        for f in range(x.shape[1]):
            if relu:
                x[m, f] = max(x[m, f], x.dtype.type(0))
            else:
                x[m, f] = x[m, f] * x.dtype.type(0.5 * (1 + math.erf(x[m, f] * math.sqrt(0.5))))
