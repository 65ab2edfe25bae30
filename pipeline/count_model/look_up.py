"""The compiled look-up of the count model: from a source sentence to the best words of every target position."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled import njit
from pipeline.vocabulary import PAD

Array = NDArray[Any]
EMPTY_WORD = PAD
"""The id that an unlinked target word is aligned with; no source contains it."""


@njit(cache=True, nogil=True)
def look_up(source: Array, mass: Array, words: Array, scores: Array, first: Array, offsets: Array, starts: Array,
            items: Array, probabilities: Array, prior_starts: Array, prior_items: Array, prior_probabilities: Array,
            position_starts: Array, position_items: Array, position_probabilities: Array, copies: Array, longest: int,
            predicted: float, tension: float, null_probability: float, diagonal: float) -> None:
    """Write the candidates of one source.

    Args:
        source: (S,) ids.
        mass: (V,) zeros, before and after the call.
        words, scores: (N, k); words and log-probabilities are written from the front.
        first, offsets, starts, items, probabilities: the lexical table.
        predicted: target length.
        the rest: as in `pipeline.count_model.model.CountModel`.
    """
    S, N = len(source), len(words)
    weights = np.empty(S + 1)
    touched = np.empty(len(mass), np.int64)
    for place in range(N):
        t = place + 1
        _alignment(weights, S, t, prior_starts, prior_items, prior_probabilities, longest, predicted,
                   tension, null_probability, diagonal)
        found = 0
        for a in range(S + 1):
            if weights[a] == 0.0:
                continue
            x = source[a - 1] if a else EMPTY_WORD
            low, high = first[x], first[x + 1]
            if low == high and copies[x] >= 0:
                found = _add(mass, touched, found, copies[x], weights[a])
            wanted = a - t if a else 0
            row = low + np.searchsorted(offsets[low:high], wanted)
            if row < high and offsets[row] == wanted:
                for entry in range(starts[row], starts[row + 1]):
                    found = _add(mass, touched, found, items[entry], weights[a] * probabilities[entry])
        if found == 0:
            seen = t < len(position_starts) - 1 and position_starts[t] < position_starts[t + 1]
            row = t if seen else 0
            for entry in range(position_starts[row], position_starts[row + 1]):
                found = _add(mass, touched, found, position_items[entry], position_probabilities[entry])
        _best(mass, touched[:found], words[place], scores[place])


@njit(cache=True, nogil=True)
def _add(mass: Array, touched: Array, found: int, word: int, probability: float) -> int:
    """Add to the mass of a word, and return the number of words with mass."""
    if mass[word] == 0.0:
        touched[found] = word
        found += 1
    mass[word] += probability
    return found


@njit(cache=True, nogil=True)
def _alignment(weights: Array, S: int, t: int, starts: Array, items: Array, probabilities: Array, longest: int,
               predicted: float, tension: float, null_probability: float, diagonal: float) -> None:
    """Write P(a | S, t) for a = 0 .. S: the counts' share, and the prior's (Dyer et al. 2013, equation 1)."""
    weights[:] = 0.0
    row = S * (longest + 1) + t if max(S, t) <= longest else -1
    share = diagonal if row >= 0 and starts[row] < starts[row + 1] else 1.0  # of the prior
    if share > 0:
        N = max(t, predicted)
        total = 0.0
        for a in range(1, S + 1):
            weights[a] = np.exp(-tension * abs(t / N - a / S))
            total += weights[a]
        for a in range(1, S + 1):
            weights[a] *= share * (1 - null_probability) / total
        weights[0] = share * (null_probability if S else 1.0)
    if share < 1:
        for entry in range(starts[row], starts[row + 1]):
            weights[items[entry]] += (1 - share) * probabilities[entry]


@njit(cache=True, nogil=True)
def _best(mass: Array, touched: Array, words: Array, scores: Array) -> None:
    """Write the k words of most mass in descending order, by a heap of k whose root is the worst; clear `mass`."""
    k, size = len(words), 0
    for word in touched:
        value: Any = np.float32(mass[word])  # rounded like those in the heap, so that ties are found
        mass[word] = 0.0
        if size < k:
            at = size
            size += 1
            while at and _worse(value, word, scores[(at - 1) // 2], words[(at - 1) // 2]):
                parent = (at - 1) // 2
                scores[at], words[at] = scores[parent], words[parent]
                at = parent
            scores[at], words[at] = value, word
        elif _worse(scores[0], words[0], value, word):
            _sink(scores, words, size, value, word)
    count = size
    while size > 1:  # move the worst after the others until the heap is empty
        size -= 1
        value, word = scores[size], words[size]
        scores[size], words[size] = scores[0], words[0]
        _sink(scores, words, size, value, word)
    for place in range(count):
        scores[place] = np.log(scores[place])


@njit(cache=True, nogil=True)
def _worse(value: float, word: int, other: float, other_word: int) -> bool:
    return value < other or (value == other and word > other_word)


@njit(cache=True, nogil=True)
def _sink(scores: Array, words: Array, size: int, value: float, word: int) -> None:
    """Put an entry at the root of a heap of `size` and restore the heap downwards."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _worse(scores[child + 1], words[child + 1], scores[child], words[child]):
            child += 1
        if not _worse(scores[child], words[child], value, word):
            break
        scores[at], words[at] = scores[child], words[child]
        at = child
    scores[at], words[at] = value, word
