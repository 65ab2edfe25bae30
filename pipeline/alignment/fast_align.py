"""Word alignment by the reparameterised IBM Model 2 of Dyer, Chahuneau and Smith (2013): fast_align.

Every target word f_i of n comes from one source word e_j of m, or from none (j = 0):

    P(f, a | e) = prod_i P(a_i | i, m, n) P(f_i | e_{a_i})
    P(0 | i, m, n) = p0,    P(j | i, m, n) = (1 - p0) exp(lambda h) / Z,    h = -|i / n - j / m|  (`diagonal`)

P(f | e) has a symmetric Dirichlet prior and is fitted by expectation maximisation or variational Bayes (`expectation`);
from the second iteration on, lambda climbs along the gradient of the expected log-likelihood.

Differences from the public fast_align, which departs from the paper's mathematics in these places:

* h is the same function everywhere. There, the expectation of h under the posterior uses positions from 0 and that
  under the model positions from 1, and the derivative of log Z swaps m and n: the tension that it finds is another.
* The model's expectation of h is weighted by the probability that a word has a source word at all, which makes the
  difference of the two expectations the exact gradient. There, the weight is 1.
* All iterations re-estimate the parameters; the links are chosen afterwards. There, the last iteration only chooses.
* An empty source sentence leaves its target words unaligned, with probability 1. There, such pairs are skipped.
* Before the first iteration P(f | e) is uniform over the target words. There, it is 1e-9: the first cross-entropy is
  another, everything after it is the same.
* A pair of words that never occurred together has probability 0 and is never linked. There, it has 1e-9, and so has
  every pair that is less probable.

Training is streaming: the corpus is cut into shards whose entries in the lexicon are looked up in every iteration anew
(`lexicon`). A corpus whose look-ups fit into `_CACHE` bytes keeps them.
"""

import math
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.diagonal import Prior, Shapes, expected_feature, find_shapes, tabulate
from pipeline.alignment.expectation import UNIT, choose, expect, maximise
from pipeline.alignment.lexicon import Lexicon, collect, cut, look_up
from pipeline.alignment.progress import Progress
from pipeline.alignment.settings import AlignmentSettings

_CACHE = 1 << 29
"""Bytes of looked-up entries (4 a cell) that are kept between iterations."""
_MOST_CELLS = 1 << 23
"""Cells of a shard of a large corpus."""
_SHARDS = 32
"""Into so many shards a small corpus is cut, so that threads finish together."""
_TENSION_STEPS, _TENSION_RATE, _TENSION_RANGE = 8, 20.0, (0.1, 14.0)


class FitStep(NamedTuple):
    """What an iteration found."""

    cross_entropy: float
    """Bits a target word, under the parameters that the iteration started with."""
    tension: float
    """lambda that the iteration started with."""


@dataclass(frozen=True)
class AlignmentModel:
    """A fitted direction."""

    lexicon: Lexicon
    """The pairs of words that have a probability."""
    probabilities: NDArray[np.float64]
    """P(f | e) of every entry of the lexicon. Under variational Bayes a row sums to less than 1."""
    tension: float
    """lambda."""
    null_probability: float
    """p0."""
    history: tuple[FitStep, ...]
    """One item an iteration."""

    def align(self, bitext: Bitext, *, threads: int = 1) -> NDArray[np.int32]:
        """Return for every target word its most probable source word.

        Returns:
            Positions in the source sentence from 0, or -1 for none, packed like `bitext.target.ids`. The nearest to
            the start wins a tie, and none wins over all. A word that the model has seen with no word of the source
            sentence gets none.
        """
        corpus = _Corpus([bitext], self.lexicon, keep=False)
        prior = tabulate(corpus.shapes, self.tension, self.null_probability)
        probabilities = np.append(self.probabilities, 0.0)
        links = np.empty(len(bitext.target.ids), np.int32)

        def align_shard(shard: int) -> None:
            part = corpus.shards[shard]
            choose(corpus.shapes, prior, part.shape_of, corpus.cells(shard), probabilities, links[part.words])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(align_shard, range(len(corpus.shards))))  # list: raise what a thread raised
        return links


def train(bitexts: Sequence[Bitext], settings: AlignmentSettings, *, threads: int,
          progress: Progress | None = None) -> AlignmentModel:
    """Fit P(target | source) to one or several corpora, taken together; the other direction: swap them first.

    Memory: 12 bytes a pair of words that occur together and 8 more a thread; up to `_CACHE` bytes of look-ups.
    """
    with ThreadPoolExecutor(threads) as pool:
        lexicon = collect(bitexts, threads, pool)
        corpus = _Corpus(bitexts, lexicon, keep=True)
        entries = len(lexicon.words)
        rows = cut(np.diff(lexicon.starts), entries // (4 * threads) + 1)
        probabilities = np.full(entries, 1 / max(1, lexicon.starts[1]))
        counts = np.zeros((threads, entries), np.int64)
        words = sum(len(bitext.target.ids) for bitext in bitexts)
        tension, history = float(settings.tension), []

        def fit_rows(part: tuple[int, int]) -> None:
            maximise(lexicon.starts, *part, counts, float(settings.alpha), probabilities)

        for iteration in range(1, settings.iterations + 1):
            prior = tabulate(corpus.shapes, tension, float(settings.null_probability))
            log_likelihood, feature, mass = _expect(corpus, prior, probabilities, counts, pool)
            history.append(FitStep(-log_likelihood / math.log(2) / max(1, words), tension))
            if settings.optimise_tension and iteration > 1:
                tension = _climb(corpus.shapes, tension, feature, mass, words)
            list(pool.map(fit_rows, rows))
            if progress is not None:
                progress(iteration, *history[-1])
    return AlignmentModel(lexicon, probabilities, tension, float(settings.null_probability), tuple(history))


def _expect(corpus: "_Corpus", prior: Prior, probabilities: NDArray[np.float64], counts: NDArray[np.int64],
            pool: Executor) -> tuple[float, float, NDArray[np.float64]]:
    """Add the expected links of a corpus to `counts`, shape (threads, entries).

    Returns:
        Log-likelihood in nats, expectation of h, and expected words with a source word, shape (positions).
    """
    found = [(0.0, 0.0)] * len(corpus.shards)
    mass = np.zeros((len(counts), corpus.shapes.positions), np.int64)
    remaining = iter(range(len(corpus.shards)))  # a shard goes to whichever thread is free

    def work(thread: int) -> None:
        for shard in remaining:
            found[shard] = expect(corpus.shapes, prior, corpus.shards[shard].shape_of, corpus.cells(shard),
                                  probabilities, counts[thread], mass[thread])

    list(pool.map(work, range(len(counts))))
    log_likelihood, feature = (math.fsum(part) for part in zip((0.0, 0.0), *found, strict=True))
    return log_likelihood, feature, mass.sum(0) / UNIT


def _climb(shapes: Shapes, tension: float, feature: float, mass: NDArray[np.float64], words: int) -> float:
    """Follow the gradient of the expected log-likelihood a target word."""
    for _ in range(_TENSION_STEPS):
        gradient = (feature - expected_feature(shapes, tension, mass)) / max(1, words)
        tension = float(np.clip(tension + _TENSION_RATE * gradient, *_TENSION_RANGE))
    return tension


class _Shard(NamedTuple):
    pairs: Bitext
    shape_of: NDArray[np.int32]
    words: slice
    """Its target words among those of its bitext."""


class _Corpus:
    """Bitexts cut into shards. The cut depends on them alone, so that sums over shards do not depend on threads."""

    def __init__(self, bitexts: Sequence[Bitext], lexicon: Lexicon, *, keep: bool) -> None:
        """With `keep`, what has been looked up is kept if `_CACHE` bytes hold all of it."""
        self.shapes, shape_of = find_shapes(bitexts)
        self._lexicon = lexicon
        pair_cells = [((self.shapes.m + 1) * self.shapes.n)[each] for each in shape_of]
        cells = sum(int(each.sum()) for each in pair_cells)
        most = min(_MOST_CELLS, cells // _SHARDS + 1)
        self.shards = [_Shard(bitext.part(first, last), shapes[first:last],
                              slice(bitext.target.offsets[first], bitext.target.offsets[last]))
                       for bitext, shapes, each in zip(bitexts, shape_of, pair_cells, strict=True)
                       for first, last in cut(each, most)]
        self._kept: dict[int, NDArray[np.int32]] | None = {} if keep and 4 * cells <= _CACHE else None

    def cells(self, shard: int) -> NDArray[np.int32]:
        """Return the entries of a shard's cells."""
        if self._kept is not None and shard in self._kept:
            return self._kept[shard]
        cells = look_up(self._lexicon, self._lexicon.target_types, *self.shards[shard].pairs)
        if self._kept is not None:
            self._kept[shard] = cells
        return cells
