"""A lattice's scores, compiled: every candidate is a row that sees itself and the source, and no other row.

Some hundred rows share one source, so two matrices of attention are multiplied once per sentence: the projection of
the queries times the keys, and the values times the out-projection. Attention is then two products with matrices of
heads times pieces columns or rows, and a softmax between them. Rows go through all layers a few dozen at a time, so
that they stay in the nearest caches.
"""

import math

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.best import exponential
from pipeline.engine.block import add, copy_for_block, embed, feed_forward, first_block, normalise
from pipeline.engine.matrix import affine, size
from pipeline.engine.reading import COLUMNS, TOGETHER, Floats, Ints, PackedScorer, Panels
from pipeline.vocabulary import BOS, EOS

_ROWS = 64
"""Rows that go through all layers together."""


@njit(cache=True, nogil=True, error_model="numpy")
def score_edges(words: Ints, source: Floats, packed: PackedScorer, pre: bool, activation: int, first: Floats,
                inner: Floats, end: Floats, team: Ints) -> bool:
    """Score all steps between the candidates of one sentence, as `LatticeTransformer.edges` does.

    Args:
        words: (N, K) candidates.
        source: (L, 2, heads, S, D / heads), keys and values of the source.
        packed: the scorer.
        pre: whether normalisation comes before each block.
        activation: of the feed-forward blocks, see `plain`.
        first, inner, end: (K,), (N - 1, K, K) and (N, K), where the scores are written.
        team: the threads that share products.

    Returns:
        Whether all words are in the vocabulary and have a position; if not, nothing is written.
    """
    (N, K), D = words.shape, packed.projection.shape[1]
    M = 1 + N * K
    tokens, places = np.empty((M, 1), np.int64), np.empty(M, np.int64)
    tokens[0, 0], places[0] = BOS, 0
    for t in range(N):
        for i in range(K):
            tokens[1 + t * K + i, 0], places[1 + t * K + i] = words[t, i], t + 1
    states = np.empty((M, D), first.dtype)
    if not embed(tokens, places, packed.decoder.embeddings, packed.decoder.positions, states.reshape(M, 1, D)):
        return False
    _read(states, source, packed, pre, activation, team)
    scale, bias = np.ones(K, first.dtype), np.full(K, packed.bias).astype(first.dtype)
    choices = _room(size(D, K), first)
    for t in range(N):
        _gather(packed.projection, words[t], choices)
        if t == 0:
            affine(states[:1], choices, scale, bias, first.reshape(1, K), team)
        else:
            affine(states[1 + (t - 1) * K:1 + t * K], choices, scale, bias, inner[t - 1], team)
    ending = _room(size(D, 1), first)
    _gather(packed.projection, np.full(1, EOS), ending)
    affine(states[1:], ending, scale[:1], bias[:1], end.reshape(N * K, 1), team)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _read(states: Floats, source: Floats, packed: PackedScorer, pre: bool, activation: int, team: Ints) -> None:
    """All layers and the final normalisation over embeddings (M, D), in place."""
    (L, _, heads, S, _), (M, D) = source.shape, states.shape
    pieces = heads * S
    within = -(-pieces // TOGETHER) * TOGETHER  # padded with zeros
    keys, key_bias = _room(L * size(D, within), states).reshape(L, -1), np.zeros((L, within), states.dtype)
    values = _room(L * size(within, D), states).reshape(L, -1)
    for layer in range(L):
        _fold(source[layer], packed.queries[layer], packed.query_bias[layer], packed.outputs[layer], keys[layer],
              key_bias[layer], values[layer], team)
    ones = np.ones(max(within, D), states.dtype)
    normed, moved = np.empty((_ROWS, D), states.dtype), np.empty((_ROWS, D), states.dtype)
    weights = np.empty((_ROWS, within), states.dtype)
    for begin in range(0, M, _ROWS):
        x = states[begin:begin + _ROWS]
        m = len(x)
        for layer in range(L):
            _, own_vectors, matrices, vectors = first_block(packed.decoder.matrices[layer],
                                                            packed.decoder.vectors[layer], D, 3 * D)
            _, cross_vectors, matrices, vectors = first_block(matrices, vectors, D, D)
            own, cross = own_vectors[:2 * D].reshape(2, D), cross_vectors[:2 * D].reshape(2, D)
            copy_for_block(x, own, pre, normed[:m])
            affine(normed[:m], packed.self_attention[layer], packed.self_scale[layer], packed.self_bias[layer],
                   moved[:m], team)
            add(x, moved, own, pre)
            copy_for_block(x, cross, pre, normed[:m])
            affine(normed[:m], keys[layer], ones[:within], key_bias[layer], weights[:m], team)
            for row in range(m):
                _soften(weights[row, :pieces].reshape(heads, S))
            affine(weights[:m], values[layer], ones[:D], cross_vectors[5 * D:], moved[:m], team)
            add(x, moved, cross, pre)
            feed_forward(x, matrices, vectors, pre, activation, normed[:m], team)
        if pre:
            normalise(x, packed.decoder.norm, x)


@njit(cache=True, nogil=True, error_model="numpy")
def _fold(source: Floats, queries: Panels, query_bias: Floats, outputs: Panels, keys: Floats, key_bias: Floats,
          values: Floats, team: Ints) -> None:
    """Multiply out the matrices of attention that all rows share.

    Args:
        source: (2, heads, S, D / heads), keys and values.
        queries, query_bias, outputs: of one layer, see `PackedScorer`.
        keys: (D, P) in panels, written: the queries' projection times every head's keys, over the root of D / heads.
        key_bias: (P,), written: the same of the queries' bias.
        values: (P, D) in panels, written: every head's values times the out-projection.
    """
    _, heads, S, depth = source.shape
    D, P = heads * depth, len(key_bias)
    scale = source.dtype.type(1 / math.sqrt(depth))
    ones, nothing, folded = np.ones(D, source.dtype), np.zeros(D, source.dtype), np.empty((S, D), source.dtype)
    keys[:] = 0
    values[:] = 0
    for head in range(heads):
        affine(source[0, head], queries[head], ones, nothing, folded, team)
        for s in range(S):
            column, total = head * S + s, source.dtype.type(0)
            for d in range(depth):
                total += query_bias[head, d] * source[0, head, s, d]
            key_bias[column] = total * scale
            begin = column // COLUMNS * COLUMNS * D + column % COLUMNS
            for d in range(D):
                keys[begin + d * COLUMNS] = folded[s, d] * scale
        affine(source[1, head], outputs[head], ones, nothing, folded, team)
        for s in range(S):
            for d in range(D):
                values[(d // COLUMNS * P + head * S + s) * COLUMNS + d % COLUMNS] = folded[s, d]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def _soften(weights: Floats) -> None:
    """The softmax of every head's scores (heads, S), in place."""
    heads, S = weights.shape
    for head in range(heads):
        row = weights[head]
        highest = row[0]
        for s in range(S):
            highest = max(highest, row[s])
        for s in range(S):
            row[s] -= highest
    every = weights.reshape(-1)
    for i in range(len(every)):
        every[i] = exponential(float(every[i]))
    for head in range(heads):
        row = weights[head]
        total = weights.dtype.type(0)
        for s in range(S):
            total += row[s]
        inverse = 1 / total
        for s in range(S):
            row[s] *= inverse


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(projection: Floats, words: Ints, panels: Floats) -> None:
    """Write the rows of K words as the columns of a matrix (D, K) in panels."""
    D = projection.shape[1]
    panels[:] = 0
    for k in range(len(words)):
        begin = k // COLUMNS * COLUMNS * D + k % COLUMNS
        for d in range(D):
            panels[begin + d * COLUMNS] = projection[words[k], d]


@njit(cache=True, nogil=True)
def _room(numbers: int, like: Floats) -> Floats:
    """An array that begins at a cache line."""
    room = np.empty(numbers + 64 // like.itemsize, like.dtype)
    first = -np.int64(room.ctypes.data) % 64 // like.itemsize
    return room[first:first + numbers]
