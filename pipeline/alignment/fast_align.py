"""Word alignment by the reparameterised IBM Model 2 of Dyer, Chahuneau and Smith (2013): fast_align.

Every target word f_i of n is aligned with one source word e_j of m, or with none (j = 0):

    P(f, a | e) = prod_i P(a_i | i, m, n) P(f_i | e_{a_i})
    P(0 | i, m, n) = p0,    P(j | i, m, n) = (1 - p0) exp(lambda h) / Z,    h = -|i / n - j / m|  (`diagonal`)

P(f | e) has a symmetric Dirichlet prior and is fitted by expectation maximisation or variational Bayes (`expectation`);
from the second iteration on, lambda follows the gradient of the expected log-likelihood.

Differences from the public fast_align, which departs from the paper's mathematics in these places:

* h is the same function everywhere. There, the expectation of h under the posterior uses positions from 0 and that
  under the model positions from 1, and the derivative of log Z swaps m and n, which gives a different tension.
* The model's expectation of h is weighted by the probability that a word has a source word, which makes the difference
  of the two expectations the exact gradient. There, the weight is 1.
* All iterations re-estimate the parameters; the links are chosen afterwards. There, the last iteration only chooses.
* An empty source sentence leaves its target words unaligned, with probability 1. There, such pairs are errors.
* Before the first iteration P(f | e) is uniform over the target words. There, it is 1e-9, which changes only the first
  cross-entropy.
* A pair of words that never occurred together has probability 0 and is never linked. There, it has 1e-9.

The corpus is cut into shards. A thread gathers the probabilities that its shard needs, counts with entries of the shard
alone, and adds these counts to the only array that has all, so memory does not grow with threads. A shard's entries are
looked up again in every iteration (`lexicon`), or kept as far as the memory that the settings allow suffices. Several
processes (`group`) divide the shards; their sums are of integers, and of floats in the order of the shards, so they are
one process's to the last bit.
"""

import math
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.diagonal import Prior, Shapes, cut_shapes, expected_feature, find_shapes, tabulate
from pipeline.alignment.expectation import UNIT, choose, expect, maximise, spread
from pipeline.alignment.group import ALONE, Group
from pipeline.alignment.lexicon import Cells, Lexicon, collect, cut, look_up
from pipeline.alignment.progress import IterationCallback
from pipeline.alignment.settings import AlignmentSettings

_BYTES_PER_CELL = 16
"""Of a shard that a thread works on: its place, and the entries, probabilities and counts of the shard, of which there
are fewer than cells."""
_MOST_CELLS = 1 << 22
"""Cells of a shard of a large corpus."""
_SHARDS = 32
"""Number of shards of a small corpus, so that threads finish together."""
_TENSION_STEPS, _TENSION_RATE, _TENSION_RANGE = 8, 20.0, (0.1, 14.0)


class FitStep(NamedTuple):
    """The figures of one iteration."""

    cross_entropy: float
    """Bits per target word, under the parameters before the iteration."""
    tension: float
    """lambda before the iteration."""


@dataclass(frozen=True)
class AlignmentModel:
    """A fitted model of one direction."""

    lexicon: Lexicon
    """The pairs of words with a probability."""
    probabilities: NDArray[np.float64]
    """P(f | e) per entry of the lexicon. Under variational Bayes a row sums to less than 1."""
    tension: float
    """lambda."""
    null_probability: float
    """p0."""
    history: tuple[FitStep, ...]
    """One item per iteration."""

    def without_table(self) -> "AlignmentModel":
        """The same figures without the table, which is large."""
        return replace(self, lexicon=Lexicon(np.zeros(1, np.int64), np.empty(0, np.int32)), probabilities=np.empty(0))

    def align(self, bitext: Bitext, *, threads: int = 1, links: NDArray[np.int32] | None = None,
              group: Group = ALONE) -> NDArray[np.int32]:
        """Return the most probable source word of every target word.

        Args:
            links: the array to write and return, shape (target words), for example of a file; None: a new one.
            group: the processes that divide the pairs; all of them return all links.

        Returns:
            Positions in the source sentence from 0, or -1 for none, packed like `bitext.target.ids`. Ties are decided
            for no link, then for the first position. A word that occurred with no word of the source sentence in
            training has no link.
        """
        corpus = _Corpus([bitext], self.lexicon, keep=0)
        prior = tabulate(corpus.shapes, self.tension, self.null_probability)
        if links is None:
            links = np.empty(len(bitext.target.ids), np.int32)
        links[:] = 0  # which adds nothing to what other processes find

        def align_shard(number: int) -> None:
            shard, cells = corpus.shards[number], corpus.cells(number)
            choose(corpus.shapes, prior, corpus.shape_of(shard), cells.places,
                   np.append(self.probabilities[cells.entries], 0.0), links[corpus.words(shard)])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(align_shard, group.share(len(corpus.shards))))  # list: raise what a thread raised
        group.add(links)
        return links


def train(bitexts: Sequence[Bitext], settings: AlignmentSettings, *, threads: int,
          callback: IterationCallback | None = None, group: Group = ALONE) -> AlignmentModel:
    """Fit P(target | source) to one or several corpora, as one; for the other direction, swap them first.

    All processes of the group return the same model. Memory: `settings.memory`, and per entry of the lexicon 20 bytes:
    its word, its probability and its count.
    """
    most_threads = max(group.collect([threads], group.world))  # the processes must cut alike
    with ThreadPoolExecutor(threads) as pool:
        lexicon = collect(bitexts, most_threads, pool, group)
        entries = len(lexicon.words)
        corpus = _Corpus(bitexts, lexicon)
        memory = settings.memory * 10**6
        workers = min(threads, max(1, memory // (_BYTES_PER_CELL * corpus.most_cells)))
        corpus.keep = memory - workers * _BYTES_PER_CELL * corpus.most_cells
        rows = cut(np.diff(lexicon.starts), entries // (4 * most_threads * group.world) + 1)
        # Every process fits consecutive rows, whose entries are its part of the probabilities and of the counts.
        shares = [len(rows) * rank // group.world for rank in range(group.world + 1)]
        mine = rows[shares[group.rank]:shares[group.rank + 1]]
        parts = [int(lexicon.starts[rows[first][0]]) if first < len(rows) else entries for first in shares]
        probabilities = np.full(entries, 1 / max(1, lexicon.starts[1]))
        counts = np.zeros(entries, np.int64)
        words = sum(len(bitext.target.ids) for bitext in bitexts)
        tension, history = float(settings.tension), []

        def fit_rows(part: tuple[int, int]) -> None:
            maximise(lexicon.starts, *part, counts, float(settings.alpha), probabilities)

        for iteration in range(1, settings.iterations + 1):
            prior = tabulate(corpus.shapes, tension, float(settings.null_probability))
            log_likelihood, feature, mass = _expect(corpus, prior, probabilities, counts, pool, workers, group)
            group.add_parts(counts, parts)
            history.append(FitStep(-log_likelihood / math.log(2) / max(1, words), tension))
            if settings.optimise_tension and iteration > 1:
                tension = _climb(corpus.shapes, tension, feature, mass, words)
            list(pool.map(fit_rows, mine))
            group.gather_parts(probabilities, parts)
            counts[:parts[group.rank]] = counts[parts[group.rank + 1]:] = 0  # of the other processes' rows
            if callback is not None:
                callback(iteration, *history[-1])
    return AlignmentModel(lexicon, probabilities, tension, float(settings.null_probability), tuple(history))


def _expect(corpus: "_Corpus", prior: Prior, probabilities: NDArray[np.float64], counts: NDArray[np.int64],
            pool: Executor, workers: int, group: Group) -> tuple[float, float, NDArray[np.float64]]:
    """Add the expected links of this process's shards to `counts`, shape (entries).

    Returns:
        Of the entire corpus: log-likelihood in nats, expectation of h, and expected words with a source word, shape
        (positions).
    """
    found: dict[int, tuple[float, float]] = {}
    mass = np.zeros((workers, corpus.shapes.positions), np.int64)
    mine = group.share(len(corpus.shards))
    remaining = iter(mine)  # a shard goes to whichever thread is free
    adding = Lock()

    def work(thread: int) -> None:
        for number in remaining:
            cells = corpus.cells(number)
            here = np.zeros(len(cells.entries), np.int64)
            found[number] = expect(corpus.shapes, prior, corpus.shape_of(corpus.shards[number]), cells.places,
                                   probabilities[cells.entries], here, mass[thread])
            with adding:
                spread(here, cells.entries, counts)

    list(pool.map(work, range(workers)))
    total = mass.sum(0)
    group.add(total)
    every = group.collect([found[number] for number in mine], len(corpus.shards))
    log_likelihood, feature = (math.fsum(part) for part in zip((0.0, 0.0), *every, strict=True))
    return log_likelihood, feature, total / UNIT


def _climb(shapes: Shapes, tension: float, feature: float, mass: NDArray[np.float64], words: int) -> float:
    """Return the tension after some steps along the gradient of the expected log-likelihood per target word."""
    for _ in range(_TENSION_STEPS):
        gradient = (feature - expected_feature(shapes, tension, mass)) / max(1, words)
        tension = float(np.clip(tension + _TENSION_RATE * gradient, *_TENSION_RANGE))
    return tension


class _Shard(NamedTuple):
    """Pairs first .. last - 1 of one of the bitexts."""

    bitext: int
    first: int
    last: int


class _Corpus:
    """Bitexts cut into shards. The cut depends only on them, so that sums over shards do not depend on threads."""

    def __init__(self, bitexts: Sequence[Bitext], lexicon: Lexicon, keep: int = 0) -> None:
        """Look-ups are kept as long as they take no more than `keep` bytes."""
        self.keep = keep
        self.shapes, self._shape_of = find_shapes(bitexts)
        self._bitexts, self._lexicon = bitexts, lexicon
        cells_of = (self.shapes.m + 1) * self.shapes.n
        cells = sum(int(np.bincount(shapes, minlength=len(cells_of)) @ cells_of) for shapes in self._shape_of)
        most = min(_MOST_CELLS, cells // _SHARDS + 1)
        self.shards = [_Shard(number, first, last) for number, shapes in enumerate(self._shape_of)
                       for first, last in cut_shapes(shapes, cells_of, most).tolist()]
        self.most_cells = most
        """Cells of a shard that has more than one pair, at most."""
        self._kept: dict[int, Cells] = {}
        self._keeping = Lock()

    def shape_of(self, shard: _Shard) -> NDArray[np.int32]:
        """Return the shape of every pair."""
        return self._shape_of[shard.bitext][shard.first:shard.last]

    def words(self, shard: _Shard) -> slice:
        """Return its target words in its bitext."""
        offsets = self._bitexts[shard.bitext].target.offsets
        return slice(int(offsets[shard.first]), int(offsets[shard.last]))

    def cells(self, number: int) -> Cells:
        """Return the entries of a shard's cells."""
        if number in self._kept:
            return self._kept[number]
        shard = self.shards[number]
        cells = look_up(self._lexicon, self._lexicon.target_types,
                        *self._bitexts[shard.bitext].part(shard.first, shard.last))
        size = cells.places.nbytes + cells.entries.nbytes
        with self._keeping:
            if size <= self.keep:
                self.keep -= size
                self._kept[number] = cells
        return cells
