"""How one step expands the beams of one sentence, compiled, for both beam searches."""

from typing import Any, NamedTuple

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.best import best_of, best_places, log_sum
from pipeline.engine.reading import Floats, Ints
from pipeline.vocabulary import PAD

_BLOCK = 64


class Candidates(NamedTuple):
    """K candidates for the next z slots."""

    scores: Floats
    """(K,) log-probabilities of the hypotheses with this step; -inf where there is no candidate."""
    parents: Ints
    """(K,) beams that they continue."""
    words: Ints
    """(K, z)."""


@njit(cache=True, nogil=True)
def best_steps(logits: Floats, scores: Floats, end: int, parents: Ints, places: Ints, unfinished: int,
               going: Candidates, ended: Candidates) -> None:
    """Find the K best joint steps of all slots, exactly: the expansion of `decoding.beam`.

    Args:
        logits: (K, z, V).
        scores: (K,) of the beams.
        end: the end symbol.
        parents, places, unfinished: the candidates of a step (`sentence.beam`): (N,), (N, z) and how many do not end.
        going: where the best steps that do not end are written, best first.
        ended: where those of the K best steps that end are written.
    """
    K, z, _ = logits.shape
    word_scores, word_ids = np.empty((K, z, K + 1), logits.dtype), np.empty((K, z, K + 1), np.int64)
    joint, chosen = np.empty(len(parents), logits.dtype), np.empty(K, np.int64)
    for r in range(K):
        for i in range(z):
            row = logits[r, i]
            best_places(row, end, word_ids[r, i, :K])
            word_ids[r, i, K] = end
            total = logits.dtype.type(log_sum(row, max(row[word_ids[r, i, 0]], row[end])))
            for k in range(K + 1):
                word_scores[r, i, k] = row[word_ids[r, i, k]] - total
    by_place, ids = word_scores.reshape(-1), word_ids.reshape(-1)
    for n in range(len(joint)):
        joint[n] = scores[parents[n]]
        for i in range(z):
            joint[n] += by_place[places[n, i]]
    best_places(joint, -1, chosen)
    ended.scores[:] = -np.inf
    if chosen.max() >= unfinished:
        for k in range(K):
            if chosen[k] >= unfinished:
                _take(ended, k, chosen[k], joint, parents, places, ids)
        best_places(joint[:unfinished], -1, chosen)
    for k in range(K):
        _take(going, k, chosen[k], joint, parents, places, ids)


@njit(cache=True, nogil=True)
def _take(to: Candidates, k: int, n: int, joint: Floats, parents: Ints, places: Ints, ids: Ints) -> None:
    """Write the n-th candidate of a step to the k-th place."""
    to.scores[k], to.parents[k] = joint[n], parents[n]
    for i in range(places.shape[1]):
        to.words[k, i] = ids[places[n, i]]


@njit(cache=True, nogil=True)
def best_pairs(logits: Floats, scores: Floats, end: int, going: Candidates, ended: Candidates) -> None:
    """Find the best pairs of a left and a right word: the expansion of `decoding.pair_beam`.

    Args:
        logits: (W, 2, V).
        scores: (W,) of the beams.
        end: the end symbol.
        going: where the W best of the 3W best pairs that hold no end symbol are written, best first.
        ended: where those of the W best pairs that hold one are written.
    """
    W, _, V = logits.shape
    number = logits.dtype
    totals = np.empty((W, 2), number)
    for r in range(W):
        for side in range(2):
            row = logits[r, side]
            totals[r, side] = number.type(log_sum(row, row[best_of(row)]))
    left_scores, lefts = np.full(2 * W, -np.inf).astype(number), np.empty(2 * W, np.int64)
    for r in range(W):
        _keep_best(logits[r, 0], totals[r, 0], scores[r], r * V, left_scores, lefts)
    pair_scores, pairs = np.full(3 * W, -np.inf).astype(number), np.empty(3 * W, np.int64)
    for n in range(2 * W):
        if left_scores[n] > -np.inf:
            r, word = divmod(lefts[n], V)
            first, last = (end, end + 1) if word == end else (0, V)  # only the end symbol follows it
            _keep_best(logits[r, 1, first:last], totals[r, 1], left_scores[n], n * V + first, pair_scores, pairs)
    going.scores[:] = -np.inf
    ended.scores[:] = -np.inf
    going.parents[:], going.words[:] = 0, PAD  # where there are fewer than W
    count = 0
    for n in range(3 * W):
        if pair_scores[n] > -np.inf:
            left, right = divmod(pairs[n], V)
            r, word = divmod(lefts[left], V)
            if right != end and count < W:
                going.scores[count], going.parents[count] = pair_scores[n], r
                going.words[count, 0], going.words[count, 1] = word, right
                count += 1
            elif right == end and n < W:
                ended.scores[n], ended.parents[n] = pair_scores[n], r
                ended.words[n, 0], ended.words[n, 1] = word, right


@njit(cache=True, nogil=True)
def _keep_best(values: Floats, total: Any, before: Any, first: int, kept: Floats, places: Ints) -> None:
    """Let the continuations of a hypothesis join the best of all if they are among them; of equal ones the earlier.

    Args:
        values: (n,) logits, which `total` normalises.
        before: the score of the hypothesis.
        first: the index of the first of these continuations among all.
        kept: (k,) the scores of the best so far, best first, -inf where there is none.
        places: (k,) their indices.
    """
    k = len(kept)
    for begin in range(0, len(values), _BLOCK):
        end, lowest, above = min(begin + _BLOCK, len(values)), kept[k - 1], False
        for i in range(begin, end):
            above |= before + (values[i] - total) > lowest
        if above:
            for i in range(begin, end):
                score = before + (values[i] - total)
                if score > kept[k - 1]:
                    at = k - 1
                    while at > 0 and score > kept[at - 1]:
                        kept[at], places[at] = kept[at - 1], places[at - 1]
                        at -= 1
                    kept[at], places[at] = score, first + i
