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
* An empty source sentence leaves its target words unaligned, with probability 1. There, such pairs are skipped.
* Before the first iteration P(f | e) is uniform over the target words. There, it is 1e-9, which changes only the first
  cross-entropy.
* A pair of words that never occurred together has probability 0 and is never linked. There, 1e-9 is the lower bound of
  all pairs.

The corpus is cut into shards whose entries in the lexicon are looked up again in every iteration (`lexicon`), or kept
if those of all shards fit into `_CACHE` bytes.
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
from pipeline.alignment.progress import IterationCallback
from pipeline.alignment.settings import AlignmentSettings

_CACHE = 1 << 29
"""Bytes of looked-up entries (4 a cell) that are kept between iterations."""
_MOST_CELLS = 1 << 23
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

    def align(self, bitext: Bitext, *, threads: int = 1) -> NDArray[np.int32]:
        """Return the most probable source word of every target word.

        Returns:
            Positions in the source sentence from 0, or -1 for none, packed like `bitext.target.ids`. Ties are decided
            for no link, then for the first position. A word that occurred with no word of the source sentence in
            training has no link.
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
          callback: IterationCallback | None = None) -> AlignmentModel:
    """Fit P(target | source) to one or several corpora, as one; for the other direction, swap them first.

    Memory: 12 bytes per pair of words that occur together, 8 more per thread, and up to `_CACHE` bytes of look-ups.
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
            if callback is not None:
                callback(iteration, *history[-1])
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
    """Return the tension after some steps along the gradient of the expected log-likelihood per target word."""
    for _ in range(_TENSION_STEPS):
        gradient = (feature - expected_feature(shapes, tension, mass)) / max(1, words)
        tension = float(np.clip(tension + _TENSION_RATE * gradient, *_TENSION_RANGE))
    return tension


class _Shard(NamedTuple):
    pairs: Bitext
    shape_of: NDArray[np.int32]
    words: slice
    """Its target words in its bitext."""


class _Corpus:
    """Bitexts cut into shards. The cut depends only on them, so that sums over shards do not depend on threads."""

    def __init__(self, bitexts: Sequence[Bitext], lexicon: Lexicon, *, keep: bool) -> None:
        """With `keep`, look-ups are kept if they all fit into `_CACHE` bytes."""
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
