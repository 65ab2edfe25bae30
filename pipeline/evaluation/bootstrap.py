"""Paired bootstrap over the sentences of a test set (Koehn 2004): resamples, intervals, and ratios of sums."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def compare_ratios(mine: Floats, theirs: Floats, times: Floats, units: int | None = None) -> Ratios:
    """A ratio of sums, of two systems on the same sentences.

    Args:
        mine, theirs: (N, 2) numerators and denominators per sentence.
        times: (samples, N), see `resample`.
        units: what a resample draws, if not N sentences.
    """
    return Ratios(float(ratio(mine.sum(0))), float(ratio(theirs.sum(0))),
                  *interval(ratio(times @ mine) - ratio(times @ theirs), units or len(mine)))


def speed_ratio(baseline: Floats, other: Floats) -> Estimate:
    """How many times as fast `other` is, with the 95 % interval of a paired bootstrap over the sentences.

    It is the ratio of total times, so that a sentence counts by how long it takes, as it does for a user. The interval
    describes what another test set would change; the noise of the machine is in the repetitions.

    Args:
        baseline, other: (N,) seconds of the same sentences, or of the same batches.

    >>> speed_ratio(np.array([4.0, 2.0]), np.array([2.0, 1.0]))
    Estimate(value=2.0, low=2.0, high=2.0)
    """
    return ratio_of_sums(np.stack([baseline, other], 1))


def ratio_of_sums(counts: Floats, samples: int = SAMPLES) -> Estimate:
    """A ratio over all sentences, of (N, 2) numerators and denominators per sentence."""
    return Estimate(float(ratio(counts.sum(0))), *interval(ratio(resample(len(counts), samples) @ counts), len(counts)))


def correlation(x: Floats, y: Floats, samples: int = SAMPLES) -> Estimate | None:
    """Pearson's correlation of two figures per sentence, (N,) each; None where one of them does not vary.

    A resample in which one of them does not vary counts as 0.

    >>> value, low, high = correlation(np.arange(9.0), -np.arange(9.0) ** 2)
    >>> round(value, 2), low < -0.98 < high
    (-0.96, True)
    """
    if not (x.std() and y.std()):
        return None
    # So that the sums of squares below are exact enough, and that figures of any scale count as varying.
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    products = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], 1)

    def pearson(sums: Floats) -> Floats:
        n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
        variances = np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0)
        return np.divide(xy - x * y / n, np.sqrt(variances), out=np.zeros_like(xy), where=variances > 1e-12 * n)

    return Estimate(float(pearson(products.sum(0))),
                    *interval(pearson(resample(len(x), samples) @ products), len(x)))


def ratio_of_products(over: Sequence[Floats], under: Sequence[Floats]) -> Estimate:
    """The product of some sums over the same sentences, divided by the product of others.

    Args:
        over, under: each (N,), a positive figure per sentence.

    >>> ratio_of_products([np.array([4.0, 2.0]), np.array([3.0, 3.0])], [np.array([2.0, 1.0]), np.array([1.0, 1.0])])
    Estimate(value=6.0, low=6.0, high=6.0)
    """
    columns = np.stack([*over, *under], 1)

    def divided(sums: Floats) -> Floats:
        return ratio(np.stack([sums[..., :len(over)].prod(-1), sums[..., len(over):].prod(-1)], -1))

    return Estimate(float(divided(columns.sum(0))),
                    *interval(divided(resample(len(columns)) @ columns), len(columns)))


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


def crossed_ratio(factors: Sequence[Floats]) -> Estimate:
    """A product of ratios of sums over rounds and sentences, both of which are drawn (Owen 2007).

    Args:
        factors: each (R, 2, N), numerators and denominators of R rounds and N sentences, the same in all factors.

    >>> crossed_ratio([np.full((3, 2, 4), [[6.0], [2.0]]), np.full((3, 2, 4), [[1.0], [2.0]])])
    Estimate(value=1.5, low=1.5, high=1.5)
    """
    rounds, _, sentences = factors[0].shape
    times = resample(rounds), resample(sentences, seed=SEED + 1)

    def product(*drawn: Floats) -> Floats:
        sums = (np.einsum("sr,sn,rcn->sc", *drawn, one) for one in factors)
        return np.prod([ratio(one) for one in sums], axis=0)

    return Estimate(float(product(np.ones((1, rounds)), np.ones((1, sentences)))[0]),
                    *interval(product(*times), min(rounds, sentences)))


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
