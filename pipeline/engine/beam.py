"""Beam search of one sentence, compiled whole: nothing returns to Python between steps.

It does what `beams.beam_search` does with `beam`'s expansion, which the tests hold it to.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.best import best_places, log_sum
from pipeline.engine.decoder import step
from pipeline.engine.reading import Bools, Floats, Reading

Ints = npt.NDArray[np.int64]


class Finished(NamedTuple):
    """The best finished hypotheses so far, best first; behind `found` of them the places are void."""

    found: Ints
    """(1,)."""
    scores: Floats
    """(K,), penalised."""
    steps: Ints
    """(K,), how many each of them took."""
    parents: Ints
    """(K,), the beams that they continued in their last step …"""
    words: Ints
    """(K, z), … and with what."""
    ended: Bools
    """(K,), whether by an end symbol."""


class Steps(NamedTuple):
    """The beams' way: of K beams after each step …"""

    parents: Ints
    """(T, K), the beams that they were before it …"""
    words: Ints
    """(T, K, z), … and what it added."""


@njit(cache=True, nogil=True)
def search(reading: Reading, starts: Ints, end: int, divisors: Floats, parents: Ints, places: Ints, going: int,
           nbest: int, way: Steps, finished: Finished) -> int:
    """Search until a sentence has its hypotheses.

    Args:
        reading: the decoder, of K rows that share a sentence.
        starts: (z,) start symbols.
        end: the end symbol.
        divisors: (T + 1,), the length penalty after every number of steps; T is the limit.
        parents, places, going: the candidates of a step (`beam._Places`): (N,), (N, z) and how many go on.
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
    tokens, lengths = np.empty((K, z), np.int64), np.empty(K, np.int64)
    hidden, logits = np.empty((K, z, D), number), np.empty((K, z, V), number)
    word_scores, word_ids = np.empty((K, z, K + 1), number), np.empty((K, z, K + 1), np.int64)
    scores, joint, chosen = np.full(K, -np.inf).astype(number), np.empty(len(parents), number), np.empty(K, np.int64)
    spare = np.empty(reading.past.shape[3:], number)
    scores[0] = 0  # at first all beams are one
    tokens[:] = starts
    for now in range(1, most + 1):
        lengths[:] = (now - 1) * z
        if not step(tokens, lengths, reading, hidden, logits):
            raise IndexError("more tokens than the decoder has places for")
        for r in range(K):
            for i in range(z):
                row = logits[r, i]
                best_places(row, end, word_ids[r, i, :K])
                word_ids[r, i, K] = end
                total = number.type(log_sum(row, max(row[word_ids[r, i, 0]], row[end])))
                for k in range(K + 1):
                    word_scores[r, i, k] = row[word_ids[r, i, k]] - total
        by_place = word_scores.reshape(-1)
        for n in range(len(joint)):
            joint[n] = scores[parents[n]]
            for i in range(z):
                joint[n] += by_place[places[n, i]]
        best_places(joint, -1, chosen)
        if chosen.max() >= going:
            for k in range(K):
                n = chosen[k]
                if n >= going:
                    _finish(finished, joint[n] / divisors[now], now, parents[n], word_ids.reshape(-1), places[n], True)
            best_places(joint[:going], -1, chosen)
        for k in range(K):
            n = chosen[k]
            scores[k], way.parents[now - 1, k] = joint[n], parents[n]
            for i in range(z):
                tokens[k, i] = way.words[now - 1, k, i] = word_ids.reshape(-1)[places[n, i]]
        if now == most:
            break
        if finished.found[0] == K or (finished.found[0] >= nbest
                                      and finished.scores[nbest - 1] >= scores[0] / divisors[most]):
            return now
        _move(reading.past, way.parents[now - 1], now * z, spare)
    for k in range(K):  # cut at the limit, where they compete with the finished ones
        _finish(finished, scores[k] / divisors[most], most, way.parents[most - 1, k], tokens[k], np.arange(z), False)
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
def _finish(finished: Finished, score: float, steps: int, parent: int, words: Ints, places: Ints, ended: bool) -> None:
    """Let a hypothesis join the finished ones if it is among the best of them; its last words stand in some places."""
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
    for i in range(len(places)):
        finished.words[at, i] = words[places[i]]


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
