"""Greedy search of one sentence, compiled: nothing returns to Python between its steps."""

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.assign import assign
from pipeline.engine.best import best_of, log_sum
from pipeline.engine.by_address import by_address
from pipeline.engine.decoder import read, step
from pipeline.engine.ending import slots_before_end
from pipeline.engine.matrix import affine
from pipeline.engine.reading import Floats, Ints, Reading
from pipeline.engine.screen import best_words

_AT_ONCE = 16
"""Tokens that are scored at a time."""


@njit(cache=True, nogil=True)
def search(starts: Ints, end: int, steps: Ints, reading: Reading) -> int:
    """Read tokens, predict the best next ones, read these, and so on up to an end symbol: greedy search.

    Args:
        starts: (z,), the tokens to read first; nothing has been read before them.
        end: the end symbol.
        steps: (T >= 1, z), where the tokens are written, end symbols included; at most T steps are taken.
        reading: the decoder, of one row.

    Returns:
        Steps taken.

    Raises:
        IndexError: there are more tokens than positions.
    """
    packed, z = reading.packed, len(starts)
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    tokens, lengths = starts.reshape(1, z).copy(), np.empty(1, np.int64)
    hidden, logits = np.empty((1, z, D), number), np.empty((z, V), number)
    bounds = np.empty((z, len(packed.screen.lost)), number)
    for now in range(len(steps)):
        lengths[0] = now * z
        if not read(tokens, lengths, reading, hidden):
            raise IndexError("more tokens than the decoder has places for")
        best_words(hidden[0], packed, logits, bounds, tokens[0], reading.team)
        for i in range(1, z):
            if tokens[0, i - 1] == end and tokens[0, i] != end:
                affine(hidden[0], packed.outputs, packed.output_scale, packed.output_bias, logits, reading.team)
                _take_best_ending(logits, tokens[0], end)
                break
        assign(tokens[0], steps[now])
        if tokens[0, z - 1] == end:  # only end symbols follow an end symbol
            return now + 1
    return len(steps)


@njit(cache=True, nogil=True)
def score(starts: Ints, steps: Ints, reading: Reading) -> float:
    """The summed log-probability of tokens that a search has predicted, step by step, after start symbols.

    Args:
        starts: (z,).
        steps: (T, z).
        reading: the decoder, of one row; what it has read is overwritten.
    """
    packed, z = reading.packed, len(starts)
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    rows = steps.reshape(-1)
    tokens = np.append(starts, rows)[:len(rows)]
    lengths, total, most = np.empty(1, np.int64), 0.0, max(_AT_ONCE // z, 1) * z
    for begin in range(0, len(rows), most):
        n, lengths[0] = min(most, len(rows) - begin), begin
        logits = np.empty((1, n, V), number)
        step(tokens[begin:begin + n].reshape(1, n), lengths, reading, np.empty((1, n, D), number), logits)
        for i in range(n):
            total += logits[0, i, rows[begin + i]] - log_sum(logits[0, i], logits[0, i, best_of(logits[0, i])])
    return total


@njit(cache=True, nogil=True)
def _take_best_ending(logits: Floats, words: Ints, end: int) -> None:
    """Replace a step in which a word follows an end symbol; see `ending.slots_before_end`.

    Args:
        logits: (z, V); those of the end symbol are overwritten.
        words: (z,), the best of every slot; changed.
        end: the end symbol.
    """
    z = len(words)
    by_word, by_end, ids = np.empty(z), np.empty(z), np.empty(z, np.int64)
    for i in range(z):
        highest = logits[i, words[i]]
        by_end[i] = logits[i, end] - highest
        logits[i, end] = -np.inf
        ids[i] = best_of(logits[i])
        by_word[i] = logits[i, ids[i]] - highest
    kept = slots_before_end(by_word, by_end)
    assign(ids[:kept], words)
    words[kept:] = end


@by_address
@njit(cache=True, nogil=True)
def run_ahead(known: Ints, predicted: Ints, length: int, reading: Reading) -> None:
    """Read tokens and predict the best next ones, each of which but the last is read in turn.

    Args:
        known: (n >= 1,) tokens to read first.
        predicted: (k >= 1,), where the predicted tokens are written.
        length: tokens that have been read.
        reading: the decoder, of one row.
    """
    packed = reading.packed
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    lengths, logits = np.full(1, length), np.empty((1, 1, V), number)
    step(known.reshape(1, -1), lengths, reading, np.empty((1, len(known), D), number), logits)
    predicted[0] = best_of(logits[0, 0])
    token, hidden = np.empty((1, 1), np.int64), np.empty((1, 1, D), number)
    for i in range(1, len(predicted)):
        token[0, 0], lengths[0] = predicted[i - 1], length + len(known) + i - 1
        step(token, lengths, reading, hidden, logits)
        predicted[i] = best_of(logits[0, 0])
