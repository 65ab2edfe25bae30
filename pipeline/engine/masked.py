"""Mask-Predict of one sentence, compiled: nothing returns to Python between iterations.

It does what `decoding.mask_predict` does step by step, which the tests hold it to. The candidates' words stand one
after another as rows of the same products, without padding; only hidden words are projected onto the vocabulary, and
candidates that have none left are not read again.
"""

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.attention import attend
from pipeline.engine.best import best_of, log_sum
from pipeline.engine.block import embed, enter, feed_forward, leave, normalise
from pipeline.engine.encoder import by_heads
from pipeline.engine.matrix import affine, size
from pipeline.engine.reading import Bools, Floats, Reading
from pipeline.vocabulary import MASK

Ints = npt.NDArray[np.int64]

_AT_ONCE = 32
"""Words that are projected onto the vocabulary at a time."""


@njit(cache=True, nogil=True)
def fill_in(lengths: Ints, iterations: int, no_words: Ints, reading: Reading, tokens: Ints, certainty: Floats) -> int:
    """Predict all words of every candidate, and again those that are the least certain.

    Args:
        lengths: (K,) words of every candidate.
        iterations: how often at most.
        no_words: ids that are not predicted.
        reading: the decoder, of a sentence; what it has read does not matter.
        tokens: (K, N), where the words are written; what stands after a candidate's words is left alone.
        certainty: (K, N), where their log-probabilities are written, each from when it was last predicted.

    Returns:
        Iterations in which a word was predicted.

    Raises:
        IndexError: there are more words than the decoder has places for.
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
            normalise(predicted, packed.norm, True, predicted)
        best, scores = np.empty(wanted, np.int64), np.empty(wanted, number)
        for begin in range(0, wanted, _AT_ONCE):
            some = predicted[begin:begin + _AT_ONCE]
            logits = np.empty((len(some), V), number)
            affine(some, packed.outputs, packed.output_scale, packed.output_bias, logits)
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


@njit(cache=True, nogil=True, error_model="numpy")
def _decode(x: Floats, begins: Ints, reading: Reading) -> None:
    """All decoder layers over targets of any lengths, whose words see each other.

    Args:
        x: (M, D) embeddings, the targets one after another; changed into the last layer's output, before the final
            normalisation.
        begins: (targets + 1,), where each of them begins, and M.
        reading: the decoder.
    """
    packed, source, pre = reading.packed, reading.source, reading.pre
    (M, D), (L, _, _, heads, S, depth) = x.shape, source.shape
    F = packed.vectors.shape[1] // 2 - 10 * D  # after norms, scales and biases of the other matrices
    normed, moved = np.empty_like(x), np.empty_like(x)
    projected, inner = np.empty((M, 3 * D), x.dtype), np.empty((M, F), x.dtype)
    weights, every = np.empty(max(S, M), x.dtype), np.empty(0, np.bool_)
    seen = reading.source_mask[0, 0] if len(reading.source_mask) else every
    second = size(D, 3 * D) + size(D, D)  # where the matrices of the second block begin …
    third = second + 2 * size(D, D)  # … and those of the third
    for layer in range(L):
        matrices, vectors = packed.matrices[layer], packed.vectors[layer]
        enter(x, matrices[:second], vectors[:10 * D], pre, normed, projected)
        for row in range(len(begins) - 1):
            target = projected[begins[row]:begins[row + 1]]
            n = len(target)
            past = np.empty((2, heads, n, depth), x.dtype)
            by_heads(target[:, D:], past)
            for i in range(n):
                attend(target[i, :D], past[0], past[1], n, every, weights, moved[begins[row] + i])
        leave(x, moved, matrices[:second], vectors[:10 * D], pre, normed)

        queries = projected.reshape(-1)[:M * D].reshape(M, D)
        enter(x, matrices[second:third], vectors[10 * D:16 * D], pre, normed, queries)
        for m in range(M):
            attend(queries[m], source[layer, 0, 0], source[layer, 1, 0], S, seen, weights, moved[m])
        leave(x, moved, matrices[second:third], vectors[10 * D:16 * D], pre, normed)

        feed_forward(x, matrices[third:], vectors[16 * D:], pre, reading.relu, normed, inner)


@njit(cache=True, nogil=True)
def _best(logits: Floats, no_words: Ints) -> tuple[int, float]:
    """The best word and its log-probability; the logits of what is no word are overwritten."""
    total = log_sum(logits, logits[best_of(logits)])
    for word in no_words:
        logits[word] = -np.inf
    word = best_of(logits)
    return word, float(logits[word]) - total
