"""Mask-Predict of one sentence, compiled: nothing returns to Python between iterations.

It gives the result of `decoding.mask_predict`, which tests compare. The candidates' words are rows of the same
products, one after another, without padding. Only hidden words are projected onto the vocabulary, and candidates
without hidden words are not read again.
"""

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.best import best_of, log_sum
from pipeline.engine.block import attention, embed, enter, first_block, leave, normalise
from pipeline.engine.by_address import by_address
from pipeline.engine.decoder import finish_layer
from pipeline.engine.encoder import by_heads
from pipeline.engine.matrix import affine
from pipeline.engine.reading import Bools, Floats, Ints, Reading, Seen
from pipeline.vocabulary import MASK

_AT_ONCE = 32
"""Words that are projected onto the vocabulary at a time."""


@njit(cache=True, nogil=True)
def fill_in(lengths: Ints, iterations: int, no_words: Ints, reading: Reading, tokens: Ints, certainty: Floats) -> int:
    """Predict all words of every candidate, then repeatedly the least certain ones.

    Args:
        lengths: (K,) words of every candidate.
        iterations: the most iterations.
        no_words: ids that must not be predicted.
        reading: the decoder, of one sentence; its past is not read.
        tokens: (K, N), where the words are written; entries after a candidate's words do not change.
        certainty: (K, N), where the log-probability of each word when it was last predicted is written.

    Returns:
        Iterations in which a word was predicted.

    Raises:
        IndexError: there are more words than positions.
    """
    packed, K = reading.packed, len(lengths)
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    hidden, begins, places = np.empty(tokens.shape, np.bool_), np.empty(K + 1, np.int64), np.empty(K, np.int64)
    for now in range(iterations):
        rows = words = wanted = 0
        for k in range(K):
            count = lengths[k] * (iterations - now) // iterations
            _hide(certainty[k, :lengths[k]], count, now == 0, hidden[k])
            if count:
                begins[rows], places[rows] = words, k
                rows, words, wanted = rows + 1, words + lengths[k], wanted + count
        if wanted == 0:
            return now
        begins[rows] = words
        states, predicted = np.empty((words, 1, D), number), np.empty((wanted, D), number)
        if not _embed(tokens, hidden, begins[:rows + 1], places, reading, states):
            raise IndexError("more words than the decoder has places for")
        _decode(states.reshape(words, D), begins[:rows + 1], reading)
        at = 0
        for row in range(rows):
            for i in range(lengths[places[row]]):
                if hidden[places[row], i]:
                    predicted[at] = states[begins[row] + i, 0]
                    at += 1
        if reading.pre:
            normalise(predicted, packed.norm, predicted)
        best, scores = np.empty(wanted, np.int64), np.empty(wanted, number)
        for begin in range(0, wanted, _AT_ONCE):
            some = predicted[begin:begin + _AT_ONCE]
            logits = np.empty((len(some), V), number)
            affine(some, packed.outputs, packed.output_scale, packed.output_bias, logits, reading.team)
            for m in range(len(some)):
                best[begin + m], scores[begin + m] = _best(logits[m], no_words)
        at = 0
        for k in range(K):
            for i in range(lengths[k]):
                if hidden[k, i]:
                    tokens[k, i], certainty[k, i] = best[at], scores[at]
                    at += 1
    return iterations


@njit(cache=True, nogil=True)
def _hide(certainty: Floats, count: int, every: bool, hidden: Bools) -> None:
    """Mark the least certain of n words, of equal ones the first; or every word."""
    n = len(certainty)
    hidden[:] = False
    hidden[:n] = every
    for _ in range(0 if every else count):
        lowest = -1
        for i in range(n):
            if not hidden[i] and (lowest < 0 or certainty[i] < certainty[lowest]):
                lowest = i
        hidden[lowest] = True


@njit(cache=True, nogil=True)
def _embed(tokens: Ints, hidden: Bools, begins: Ints, places: Ints, reading: Reading, states: Floats) -> bool:
    """Write the embeddings of the words of all rows, MASK where they are hidden; see `_decode` for the arguments."""
    shown, slots = np.empty((len(states), 1), np.int64), np.empty(len(states), np.int64)
    for row in range(len(begins) - 1):
        k = places[row]
        for i in range(begins[row + 1] - begins[row]):
            shown[begins[row] + i, 0] = MASK if hidden[k, i] else tokens[k, i]
            slots[begins[row] + i] = i
    return embed(shown, slots, reading.packed.embeddings, reading.packed.positions, states)


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def _decode(x: Floats, begins: Ints, reading: Reading) -> None:
    """All decoder layers over targets of any lengths, whose words see each other.

    Args:
        x: (M, D) embeddings, the targets one after another; changed into the last layer's output, before the final
            normalisation.
        begins: (targets + 1,), where each of them begins, and M.
        reading: the decoder.
    """
    packed, pre = reading.packed, reading.pre
    (M, D), (L, _, _, heads, _, depth) = x.shape, reading.source.shape
    normed, moved, projected = np.empty_like(x), np.empty_like(x), np.empty((M, 3 * D), x.dtype)
    every, first = np.empty((0, 1, 1), np.bool_), np.zeros(1, np.int64)
    for layer in range(L):
        matrices, vectors, _, _ = first_block(packed.matrices[layer], packed.vectors[layer], D, 3 * D)
        enter(x, matrices, vectors, pre, normed, projected, reading.team)
        for row in range(len(begins) - 1):
            target = projected[begins[row]:begins[row + 1]]
            n = len(target)
            past = np.empty((2, heads, n, depth), x.dtype)
            by_heads(target[:, D:], past)
            seen = Seen(past[:1], past[1:], first, reading.origins[:0], np.full(1, n), every, first)
            attention(target, seen, moved[begins[row]:begins[row + 1]], reading.team)
        leave(x, moved, matrices, vectors, pre, normed, reading.team)
        finish_layer(x, layer, reading, normed, moved, projected)


@njit(cache=True, nogil=True)
def _best(logits: Floats, no_words: Ints) -> tuple[int, float]:
    """The best word and its log-probability; the logits of ids that are no words are overwritten."""
    total = log_sum(logits, logits[best_of(logits)])
    for word in no_words:
        logits[word] = -np.inf
    word = best_of(logits)
    return word, float(logits[word]) - total
