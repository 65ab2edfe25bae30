"""Beam search of one sentence, compiled whole: nothing returns to Python between steps.

It does what `beams.beam_search` does with the expansion of `beam` or of `pair_beam`, which the tests hold it to.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.decoder import step
from pipeline.engine.expansion import Candidates, best_pairs, best_steps
from pipeline.engine.reading import Bools, Floats, Reading

Ints = npt.NDArray[np.int64]


class Finished(NamedTuple):
    """The best H finished hypotheses so far, best first; the places after the first `found` are void."""

    found: Ints
    """(1,)."""
    scores: Floats
    """(H,), penalised."""
    steps: Ints
    """(H,), how many each of them took."""
    parents: Ints
    """(H,), the beams that they continued in their last step."""
    words: Ints
    """(H, z), what they continued them with."""
    ended: Bools
    """(H,), whether by an end symbol."""


class Steps(NamedTuple):
    """The beams' way: of K beams after each step …"""

    parents: Ints
    """(T, K), the beams that they were before it …"""
    words: Ints
    """(T, K, z), … and what it added."""


@njit(cache=True, nogil=True)
def search(reading: Reading, starts: Ints, end: int, divisors: Floats, parents: Ints, places: Ints, unfinished: int,
           nbest: int, way: Steps, finished: Finished) -> int:
    """Search until a sentence has its hypotheses.

    Args:
        reading: the decoder, of K rows that share a sentence.
        starts: (z,) start symbols.
        end: the end symbol.
        divisors: (T + 1,), the length penalty after every number of steps; T is the limit.
        parents, places, unfinished: the candidates of a step, see `expansion.best_steps`; N = 0: pairs are to be found,
            and z = 2.
        nbest: hypotheses to return.
        way, finished: where the result is written.

    Returns:
        Steps taken.

    Raises:
        IndexError: there are more tokens than the decoder has places for.
    """
    packed, most = reading.packed, len(divisors) - 1
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    K, z = way.words.shape[1:]
    lengths, hidden, logits = np.empty(K, np.int64), np.empty((K, z, D), number), np.empty((K, z, V), number)
    going = Candidates(np.full(K, -np.inf).astype(number), np.zeros(K, np.int64), np.empty((K, z), np.int64))
    ended = Candidates(np.empty(K, number), np.empty(K, np.int64), np.empty((K, z), np.int64))
    spare = np.empty(reading.past.shape[3:], number)
    going.scores[0] = 0  # at first all beams are one
    going.words[:] = starts
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
        way.parents[now - 1], way.words[now - 1] = going.parents, going.words
        if now == most:
            break
        if (finished.found[0] == len(finished.scores)
                or (finished.found[0] >= nbest and finished.scores[nbest - 1] >= going.scores[0] / divisors[most])):
            return now
        _move(reading.past, going.parents, now * z, spare)
    for k in range(K):  # cut at the limit, where they compete with the finished ones
        _finish(finished, going.scores[k] / divisors[most], most, going.parents[k], going.words[k], False)
    return most


@njit(cache=True, nogil=True)
def follow(way: Steps, finished: Finished, hypothesis: int, slots: Ints) -> None:
    """Write the slots of a finished hypothesis into the beginning of `slots` (T z,)."""
    z, last, beam = way.words.shape[2], finished.steps[hypothesis] - 1, finished.parents[hypothesis]
    slots[last * z:(last + 1) * z] = finished.words[hypothesis]
    for now in range(last - 1, -1, -1):
        slots[now * z:(now + 1) * z] = way.words[now, beam]
        beam = way.parents[now, beam]


@njit(cache=True, nogil=True)
def _finish(finished: Finished, score: float, steps: int, parent: int, words: Ints, ended: bool) -> None:
    """Let a hypothesis join the finished ones if it is among the best of them; `words` (z,) are its last ones."""
    K = len(finished.scores)
    count = finished.found[0]
    at = count
    while at > 0 and score > finished.scores[at - 1]:
        at -= 1
    if at == K or score == -np.inf:
        return
    finished.found[0] = min(count + 1, K)
    for later in range(finished.found[0] - 1, at, -1):
        finished.scores[later], finished.steps[later] = finished.scores[later - 1], finished.steps[later - 1]
        finished.parents[later], finished.ended[later] = finished.parents[later - 1], finished.ended[later - 1]
        finished.words[later] = finished.words[later - 1]
    finished.scores[at], finished.steps[at], finished.parents[at], finished.ended[at] = score, steps, parent, ended
    finished.words[at] = words


@njit(cache=True, nogil=True)
def _move(past: Floats, parents: Ints, length: int, spare: Floats) -> None:
    """Let every row have its parent's past, of so many tokens; `spare` (heads, T, D / heads) is room for one row's."""
    layers, _, K, heads, capacity, depth = past.shape
    size, count = heads * capacity * depth, length * depth
    every, kept = past.reshape(-1), spare.reshape(-1)
    targets, sources, moves = np.empty(2 * K, np.int64), np.empty(2 * K, np.int64), 0
    wanted, waiting = parents.copy(), (parents != np.arange(K)).sum()
    while waiting:
        before = waiting
        for k in range(K):
            if wanted[k] != k and not (wanted == k).any():  # whose own past nobody waits for
                targets[moves], sources[moves] = k, wanted[k]
                wanted[k], moves, waiting = k, moves + 1, waiting - 1
        if waiting == before:  # rows that wait for each other in a circle: one of them steps aside
            k = (wanted != np.arange(K)).argmax()
            targets[moves], sources[moves], moves = K, k, moves + 1
            wanted[wanted == k] = K
    for part in range(2 * layers):
        for move in range(moves):
            for head in range(heads):
                begin = head * capacity * depth
                target, source = (part * K + targets[move]) * size + begin, (part * K + sources[move]) * size + begin
                if targets[move] == K:
                    kept[begin:begin + count] = every[source:source + count]
                elif sources[move] == K:
                    every[target:target + count] = kept[begin:begin + count]
                else:
                    every[target:target + count] = every[source:source + count]
