"""Beam search of one sentence, compiled: nothing returns to Python between its steps.

It gives the result of `beams.beam_search` with the expansion of `beam` or of `pair_beam`, which tests compare.
"""

from typing import NamedTuple

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.assign import assign
from pipeline.engine.decoder import step
from pipeline.engine.expansion import Candidates, best_pairs, best_steps
from pipeline.engine.reading import Bools, Floats, Ints, Reading


class Finished(NamedTuple):
    """The best H finished hypotheses so far, best first; entries after the first `found` are undefined."""

    found: Ints
    """(1,)."""
    scores: Floats
    """(H,), penalised."""
    steps: Ints
    """(H,), the number of steps of each."""
    parents: Ints
    """(H,), the beam that each continued in its last step."""
    words: Ints
    """(H, z), the words of their last steps."""
    ended: Bools
    """(H,), whether by an end symbol."""


class Steps(NamedTuple):
    """How the K beams came about, step by step."""

    parents: Ints
    """(T, K), the beam of the step before that each beam continues."""
    words: Ints
    """(T, K, z), the words that the step added to it."""


@njit(cache=True, nogil=True)
def search(reading: Reading, starts: Ints, end: int, divisors: Floats, parents: Ints, places: Ints, unfinished: int,
           nbest: int, steps: Steps, finished: Finished) -> int:
    """Search until the sentence has its hypotheses.

    Args:
        reading: the decoder, of K rows that share a sentence.
        starts: (z,) start symbols.
        end: the end symbol.
        divisors: (T + 1,), the length penalty after every number of steps; T is the limit.
        parents, places, unfinished: the candidates of a step, see `expansion.best_steps`; N = 0: pairs, see
            `expansion.best_pairs`, and z = 2.
        nbest: hypotheses to return.
        steps, finished: where the result is written.

    Returns:
        Steps taken.

    Raises:
        IndexError: there are more tokens than positions.
    """
    packed, most = reading.packed, len(divisors) - 1
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    K, z = steps.words.shape[1:]
    lengths, hidden, logits = np.empty(K, np.int64), np.empty((K, z, D), number), np.empty((K, z, V), number)
    going = Candidates(np.full(K, -np.inf).astype(number), np.zeros(K, np.int64), np.empty((K, z), np.int64))
    ended = Candidates(np.empty(K, number), np.empty(K, np.int64), np.empty((K, z), np.int64))
    going.scores[0] = 0  # at first all beams are the same
    for k in range(K):
        assign(starts, going.words[k])
    for now in range(1, most + 1):
        lengths[:] = (now - 1) * z
        if not step(going.words, lengths, reading, hidden, logits):
            raise IndexError("more tokens than the decoder has places for")
        if len(parents):
            best_steps(logits, going.scores.copy(), end, parents, places, unfinished, going, ended)
        else:
            best_pairs(logits, going.scores.copy(), end, going, ended)
        for k in range(K):
            _finish(finished, ended.scores[k] / divisors[now], now, ended.parents[k], ended.words[k], True)
        assign(going.parents, steps.parents[now - 1])
        assign(going.words.reshape(-1), steps.words[now - 1].reshape(-1))
        if now == most:
            break
        if (finished.found[0] == len(finished.scores)
                or (finished.found[0] >= nbest and finished.scores[nbest - 1] >= going.scores[0] / divisors[most])):
            return now
        _follow(going.parents, reading.origins[:, :now * z])
    for k in range(K):  # beams that are cut at the limit compete with the finished hypotheses
        _finish(finished, going.scores[k] / divisors[most], most, going.parents[k], going.words[k], False)
    return most


@njit(cache=True, nogil=True)
def backtrace(steps: Steps, finished: Finished, hypothesis: int, slots: Ints) -> None:
    """Write the slots of a finished hypothesis into the beginning of `slots` (T z,)."""
    z, last, beam = steps.words.shape[2], finished.steps[hypothesis] - 1, finished.parents[hypothesis]
    assign(finished.words[hypothesis], slots[last * z:])
    for now in range(last - 1, -1, -1):
        assign(steps.words[now, beam], slots[now * z:])
        beam = steps.parents[now, beam]


@njit(cache=True, nogil=True)
def _finish(finished: Finished, score: float, steps: int, parent: int, words: Ints, ended: bool) -> None:
    """Let a hypothesis with the last words (z,) join the finished ones if it is among the best of them."""
    K, count = len(finished.scores), finished.found[0]
    at = count
    while at > 0 and score > finished.scores[at - 1]:
        at -= 1
    if at == K or score == -np.inf:
        return
    finished.found[0] = min(count + 1, K)
    for later in range(finished.found[0] - 1, at, -1):
        finished.scores[later], finished.steps[later] = finished.scores[later - 1], finished.steps[later - 1]
        finished.parents[later], finished.ended[later] = finished.parents[later - 1], finished.ended[later - 1]
        assign(finished.words[later - 1], finished.words[later])
    finished.scores[at], finished.steps[at], finished.parents[at], finished.ended[at] = score, steps, parent, ended
    assign(words, finished.words[at])


@njit(cache=True, nogil=True)
def _follow(parents: Ints, origins: Ints) -> None:
    """Let every beam have its parent's past: origins (K, t), or none of a single beam, whose past is its own."""
    before = origins.copy()
    for k in range(len(origins)):
        assign(before[parents[k]], origins[k])
