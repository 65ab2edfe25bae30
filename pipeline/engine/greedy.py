"""Greedy search, compiled: nothing returns to Python between its steps."""

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.assign import assign
from pipeline.engine.best import best_of, log_sum
from pipeline.engine.by_address import by_address
from pipeline.engine.decoder import read, step
from pipeline.engine.ending import slots_before_end
from pipeline.engine.matrix import affine
from pipeline.engine.reading import Floats, Ints, Packed, Reading
from pipeline.engine.screen import best_words

_AT_ONCE = 16
"""Tokens that are scored at a time."""


@njit(cache=True, nogil=True)
def search(starts: Ints, end: int, limits: Ints, reading: Reading, steps: Ints, counts: Ints) -> None:
    """Read tokens, predict the best next ones, read these, and so on up to end symbols: greedy search of R sentences.

    A sentence that has ended leaves.

    Args:
        starts: (z,), the tokens to read first; nothing has been read before them.
        end: the end symbol.
        limits: (R,), the most steps of each sentence, from 1 to T.
        reading: the decoder, of one row per sentence.
        steps: (R, T, z), where the tokens are written, end symbols included.
        counts: (R,), where the numbers of steps are written.

    Raises:
        IndexError: there are more tokens than positions.
    """
    packed, z, R = reading.packed, len(starts), len(limits)
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    tokens, lengths, sentences = np.empty((R, z), np.int64), np.empty(R, np.int64), np.arange(R)
    for r in range(R):
        assign(starts, tokens[r])
    hidden, logits = np.empty((R, z, D), number), np.empty((R * z, V), number)
    bounds = np.empty((R * z, len(packed.screen.lost)), number)
    for now in range(steps.shape[1]):
        n = len(sentences)
        lengths[:n] = now * z
        if not read(tokens[:n], lengths[:n], reading, hidden[:n]):
            raise IndexError("more tokens than the decoder has places for")
        best_words(hidden.reshape(R * z, D)[:n * z], packed, logits[:n * z], bounds[:n * z],
                   tokens.reshape(-1)[:n * z], reading.team)
        for r in range(n):
            _keep_rule(hidden[r], packed, logits[r * z:(r + 1) * z], tokens[r], end, reading.team)
            sentence = sentences[r]
            assign(tokens[r], steps[sentence, now])
            counts[sentence] = now + 1
        going = _still_going(tokens[:n], end, limits, now, sentences)
        if len(going) == 0:
            break
        if len(going) < n:
            for r in range(len(going)):
                assign(tokens[going[r]], tokens[r])
            sentences, reading = sentences[going], _some_rows(reading, going)


@njit(cache=True, nogil=True)
def _keep_rule(hidden: Floats, packed: Packed, logits: Floats, tokens: Ints, end: int, team: Ints) -> None:
    """Replace the tokens (z,) of a step in which a word follows an end symbol; see `_take_best_ending`.

    Args:
        hidden: (z, D), the decoder's last states.
        logits: (z, V), of `best_words`; overwritten.
    """
    for i in range(1, len(tokens)):
        if tokens[i - 1] == end and tokens[i] != end:
            affine(hidden, packed.outputs, packed.output_scale, packed.output_bias, logits, team)
            _take_best_ending(logits, tokens, end)
            break


@njit(cache=True, nogil=True)
def _still_going(tokens: Ints, end: int, limits: Ints, now: int, sentences: Ints) -> Ints:
    """The rows whose sentences may take another step after step `now`, in which they took tokens (R, z)."""
    going, count = np.empty(len(tokens), np.int64), 0
    for r in range(len(tokens)):
        if tokens[r, -1] != end and now + 1 < limits[sentences[r]]:  # only end symbols follow an end symbol
            going[count] = r
            count += 1
    return going[:count]


@njit(cache=True, nogil=True)
def _some_rows(reading: Reading, rows: Ints) -> Reading:
    """A decoder of some of its rows, each of another sentence."""
    padded = reading.source_mask[rows] if len(reading.source_mask) else reading.source_mask
    return Reading(reading.packed, reading.past, reading.own[rows], reading.origins, reading.source,
                   reading.sources[rows], reading.mask, padded, reading.pre, reading.activation, reading.team)


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
