"""Paired bootstrap over the sentences of a test set (Koehn 2004): BLEU, and ratios of sums over sentences.

sacreBLEU's own paired bootstrap answers whether one system differs from another, and counts only one side of large
differences. Here a system's BLEU on every resample comes back as an array, so that any statistic of any number of
systems (a difference, a gap, the change of a gap) has an interval.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from pipeline.bleu import make_bleu
from pipeline.errors import PipelineError
from pipeline.evaluation.quality import check_counts

Floats = NDArray[np.float64]

SEED, SAMPLES = 12345, 1000
"""Of resamples, unless a caller chooses otherwise."""
_LEVEL = 0.975
"""The upper end of a 95 % interval; the lower one is as far from 0."""


class Estimate(NamedTuple):
    """A figure, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def named(self, name: str) -> dict[str, float]:
        """The entries of a metrics file."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


class Scores(NamedTuple):
    """A system's BLEU in percent."""

    bleu: float
    """On the test set."""
    resampled: Floats
    """(samples,) on every resample."""


class Resampled:
    """BLEU of systems on the same resamples of one test set, so that differences between systems are paired."""

    def __init__(self, references: Sequence[Sequence[str]], tokenizer: str, samples: int,
                 seed: int = SEED) -> None:
        """Args:
            references: (R, N), R per sentence.
            tokenizer: sacreBLEU's name of BLEU's tokenizer.
            samples, seed: see `resample`.

        Raises:
            PipelineError: no sentences, no resamples or an unknown tokenizer.
        """
        N = len(references[0]) if references else 0
        if not N or samples < 1:
            raise PipelineError(f"evaluation: nothing to resample: {N} references, {samples} "
                                "bootstrap_samples; give at least one of each")
        self._references = references
        # The effective order changes sentence scores, which are not used, and avoids a warning for each.
        self._bleu = make_bleu(tokenizer, effective_order=True)
        self.times = resample(N, samples, seed)
        """(samples, N), how often each resample contains each sentence."""

    def __call__(self, hypotheses: Sequence[str]) -> Scores:
        """BLEU of a system's (N,) hypotheses.

        Raises:
            PipelineError: another number of hypotheses than references.
        """
        check_counts("hypotheses", hypotheses, self._references)
        scores = (self._bleu.sentence_score(hypothesis, correct)
                  for hypothesis, *correct in zip(hypotheses, *self._references, strict=True))
        counts = np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in scores], dtype=np.float64)
        return Scores(_corpus_bleu(counts.sum(0)),
                      np.array([_corpus_bleu(resample) for resample in self.times @ counts]))


def _corpus_bleu(counts: Floats) -> float:
    """BLEU from (10,) sums: n-gram matches and n-grams of orders 1 to 4, tokens, tokens of the nearest references."""
    *n_grams, length, expected = counts.astype(int).tolist()
    return float(BLEU.compute_bleu(n_grams[:4], n_grams[4:], length, expected, smooth_method="exp").score)


def p_value(system: Scores, baseline: Scores) -> float:
    """The probability that chance alone makes the BLEU of two equally good systems differ as much, in either direction.

    It is that of differences as large among the resamples' differences, moved so that their centre is 0. Equal texts
    have 1; nothing is below 1 / (samples + 1).

    Args:
        system, baseline: on the same resamples.
    """
    observed = system.bleu - baseline.bleu
    by_chance = system.resampled - baseline.resampled - observed
    return float((1 + (abs(by_chance) >= abs(observed)).sum()) / (1 + len(by_chance)))


class Ratios(NamedTuple):
    """A ratio of two systems over all sentences, and the 95 % interval of its difference."""

    mine: float
    theirs: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """How much greater the first system's ratio is."""
        return self.mine - self.theirs


def compare_ratios(mine: Floats, theirs: Floats, times: Floats) -> Ratios:
    """A ratio of sums, of two systems on the same sentences.

    Args:
        mine, theirs: (N, 2) numerators and denominators per sentence.
        times: (samples, N), see `resample`.
    """
    return Ratios(float(ratio(mine.sum(0))), float(ratio(theirs.sum(0))),
                  *interval(ratio(times @ mine) - ratio(times @ theirs), len(mine)))


def quotient(mine: Floats, theirs: Floats, *, paired: bool = True) -> Estimate:
    """How many times as large one ratio of sums is as another one.

    Args:
        mine, theirs: (N, 2) and (M, 2) positive numerators and denominators per sentence.
        paired: of the same sentences, so that N = M.
    """
    samples = [ratio(resample(len(one), SAMPLES, seed) @ one)
               for one, seed in ((mine, SEED), (theirs, SEED if paired else SEED + 1))]
    return Estimate(float(ratio(mine.sum(0)) / ratio(theirs.sum(0))),
                    *interval(samples[0] / samples[1], min(len(mine), len(theirs))))


def ratio(sums: Floats) -> Floats:
    """Numerators and denominators (..., 2) to ratios (...); 0 of 0 is 0.

    >>> ratio(np.array([[1.0, 4.0], [0.0, 0.0]])).tolist()
    [0.25, 0.0]
    """
    numerators, denominators = sums[..., 0], sums[..., 1]
    return np.divide(numerators, denominators, out=np.zeros(numerators.shape), where=denominators > 0)


def resample(sentences: int, samples: int = SAMPLES, seed: int = SEED) -> Floats:
    """(samples, sentences), how often each resample of the test set contains each sentence.

    Args:
        sentences: N of the test set and of each resample.
        samples: resamples.
        seed: of the random numbers.
    """
    drawn = np.random.default_rng(seed).multinomial(sentences, np.full(sentences, 1 / sentences), samples)
    return drawn.astype(np.float64)


def interval(values: Floats, units: int) -> tuple[float, float]:
    """The 95 % interval of a bootstrap.

    The percentiles of few units are too near to each other: they lack the factor n / (n - 1) of a variance and the
    tails of Student's distribution. Percentiles farther out make up for both (Hesterberg 2015, section 4.3).

    Args:
        values: (samples,) a statistic of every resample.
        units: n of every resample, such as sentences.

    Returns:
        The lower and the upper end.
    """
    outer = 1.0 if units < 2 else NormalDist().cdf(math.sqrt(units / (units - 1)) * _student(units - 1))
    low, high = np.quantile(values, (1 - outer, outer))
    return float(low), float(high)


def _student(degrees: int) -> float:
    """The 97.5 % quantile of Student's distribution, by expansion (Abramowitz and Stegun, 26.7.5).

    Good to 1 % from 4 degrees of freedom on, and too small below.

    >>> [round(_student(degrees), 2) for degrees in (5, 9, 29)]
    [2.57, 2.26, 2.05]
    """
    z = NormalDist().inv_cdf(_LEVEL)
    terms = ((z ** 3 + z) / 4, (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
             (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384)
    return z + sum(term / degrees ** power for power, term in enumerate(terms, start=1))
