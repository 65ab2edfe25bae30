"""What blocks of encoder and decoder layers share, compiled."""

import math

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.assign import assign
from pipeline.engine.attention import attend_rows
from pipeline.engine.best import exponential
from pipeline.engine.by_address import by_address
from pipeline.engine.matrix import affine, size
from pipeline.engine.plain import GELU, RELU
from pipeline.engine.reading import Floats, Ints, Panels, Seen
from pipeline.engine.team import attend_together, is_attention_shared

_SUM = {"contract", "nsz", "reassoc"}  # the order of a sum depends only on its length


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def embed(tokens: Ints, places: Ints, embeddings: Floats, positions: Floats, out: Floats) -> bool:
    """Write into out (R, n, D) the sums of the embeddings of tokens and of their positions.

    Args:
        tokens: (R, n).
        places: (R,), the position of the first token of every row.
        embeddings: (V, D), scaled.
        positions: (T, D).

    Returns:
        Whether all tokens are in the vocabulary and have a position; if not, nothing is written.
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


@njit(cache=True, nogil=True)
def first_block(matrices: Panels, vectors: Floats, D: int, N: int) -> tuple[Panels, Floats, Panels, Floats]:
    """The matrices and vectors of the first of some blocks, and those of the others, as `packing` lays them out.

    Args:
        matrices, vectors: of the blocks of a layer: self-attention, in a decoder attention to the source, feed-forward.
        D, N: the in-projection of the first one is (D, N), the out-projection (D, D).
    """
    M, Q = size(D, N) + size(D, D), 2 * (D + N + D)  # a norm, and two scales and biases
    return matrices[:M], vectors[:Q], matrices[M:], vectors[Q:]


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def enter(x: Floats, matrices: Panels, vectors: Floats, pre: bool, normed: Floats, out: Floats,
          team: Ints) -> None:
    """The in-projection of a block, after the normalisation where that comes first.

    Args:
        x: (M, D).
        matrices: in-projection and out-projection of the block.
        vectors: weight and bias of its norm, and scale and bias of the two projections.
        pre: whether normalisation comes first.
        normed: (M, D), overwritten: the rows that are projected.
        out: (M, N).
        team: the threads that share products.
    """
    D, N = x.shape[1], out.shape[1]
    copy_for_block(x, vectors[:2 * D].reshape(2, D), pre, normed)
    affine(normed, matrices, vectors[2 * D:2 * D + N], vectors[2 * D + N:2 * D + 2 * N], out, team)


@njit(cache=True, nogil=True, error_model="numpy")
def copy_for_block(x: Floats, norm: Floats, pre: bool, out: Floats) -> None:
    """Write the rows that a block reads into out (M, D): x (M, D), normalised by norm (2, D) where that comes first."""
    if pre:
        normalise(x, norm, out)
    else:
        assign(x.reshape(-1), out.reshape(-1))


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def attention(queries: Floats, seen: Seen, out: Floats, team: Ints) -> None:
    """Write the attention of all queries into out (M, D); see `attention.attend_rows`, and for the team `enter`."""
    if is_attention_shared(seen.counts, out, team):
        attend_together(queries, seen, out, team)
    else:
        first = int(np.int64(0))  # for a literal it would be compiled once more
        attend_rows(first, len(queries), queries, seen, out)


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def leave(x: Floats, inner: Floats, matrices: Panels, vectors: Floats, pre: bool, moved: Floats,
          team: Ints) -> None:
    """The out-projection of a block and the residual sum, and the normalisation where it comes last.

    Args:
        x: (M, D); changed.
        inner: (M, K).
        matrices, vectors, pre, team: see `enter`.
        moved: (M, D), overwritten.
    """
    D, Q = x.shape[1], len(vectors)
    outer = matrices[len(matrices) - size(inner.shape[1], D):]
    affine(inner, outer, vectors[Q - 2 * D:Q - D], vectors[Q - D:], moved, team)
    add(x, moved, vectors[:2 * D].reshape(2, D), pre)


@njit(cache=True, nogil=True, error_model="numpy")
def add(x: Floats, moved: Floats, norm: Floats, pre: bool) -> None:
    """The residual sum of x (M, D), in place, and the normalisation by norm (2, D) where it comes last."""
    for m in range(len(x)):
        for d in range(x.shape[1]):
            x[m, d] += moved[m, d]
    if not pre:
        normalise(x, norm, x)


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def feed_forward(x: Floats, matrices: Panels, vectors: Floats, pre: bool, activation: int, room: Floats,
                 team: Ints) -> None:
    """A feed-forward block over x (M, D), in place.

    Args:
        matrices, vectors, pre, team: see `enter`.
        activation: `RELU`, `GELU` or `SWISH`.
        room: (M, D), overwritten.
    """
    M, D = x.shape
    inner = np.empty((M, len(vectors) // 2 - 2 * D), x.dtype)  # the vectors: 4 D of its norms and outputs, 2 F
    enter(x, matrices, vectors, pre, room, inner, team)
    _activate(inner.reshape(-1), activation)
    leave(x, inner, matrices, vectors, pre, room, team)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUM)
def normalise(x: Floats, norm: Floats, out: Floats) -> None:
    """Layer normalisation of x (M, D) by weight and bias (2, D), into out, which may be x."""
    M, D = x.shape
    for m in range(M):
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
def _activate(x: Floats, activation: int) -> None:
    """Apply an activation function to x (n,) in place."""
    number = x.dtype.type
    if activation == RELU:
        for i in range(len(x)):
            x[i] = max(x[i], number(0))
    elif activation == GELU:
        for i in range(len(x)):
            x[i] = x[i] * number(0.5 * (1 + math.erf(x[i] * math.sqrt(0.5))))
    else:
        for i in range(len(x)):
            power = exponential(-abs(float(x[i])))
            x[i] = number(x[i] * (1.0 if x[i] > 0 else power) / (1 + power))
