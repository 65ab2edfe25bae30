"""Paired bootstrap over the sentences of a test set (Koehn 2004): BLEU, and ratios of sums over sentences.

sacreBLEU's own paired bootstrap answers whether one system differs from another. Here a system's BLEU on every resample
comes back as an array, so that any statistic of any number of systems (a gap, the change of a gap) has an interval.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from pipeline.bleu import make_bleu
from pipeline.errors import PipelineError
from pipeline.evaluation.quality import BOOTSTRAP_SEED, check_counts

Floats = NDArray[np.float64]


class Resampled:
    """BLEU of systems on the same resamples of one test set, so that differences between systems are paired."""

    def __init__(self, references: Sequence[Sequence[str]], tokenizer: str, samples: int,
                 seed: int = BOOTSTRAP_SEED) -> None:
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

    def __call__(self, hypotheses: Sequence[str]) -> tuple[float, Floats]:
        """BLEU in percent of a system's (N,) hypotheses, and on every resample (samples,).

        Raises:
            PipelineError: another number of hypotheses than references.
        """
        check_counts("hypotheses", hypotheses, self._references)
        scores = (self._bleu.sentence_score(hypothesis, correct)
                  for hypothesis, *correct in zip(hypotheses, *self._references, strict=True))
        counts = np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in scores], dtype=np.float64)
        return _corpus_bleu(counts.sum(0)), np.array([_corpus_bleu(resample) for resample in self.times @ counts])


def _corpus_bleu(counts: Floats) -> float:
    """BLEU from (10,) sums: n-gram matches and n-grams of orders 1 to 4, tokens, tokens of the nearest references."""
    *n_grams, length, expected = counts.astype(int).tolist()
    return float(BLEU.compute_bleu(n_grams[:4], n_grams[4:], length, expected, smooth_method="exp").score)


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
                  *interval(ratio(times @ mine) - ratio(times @ theirs)))


def ratio(sums: Floats) -> Floats:
    """Numerators and denominators (..., 2) to ratios (...); 0 of 0 is 0.

    >>> ratio(np.array([[1.0, 4.0], [0.0, 0.0]])).tolist()
    [0.25, 0.0]
    """
    numerators, denominators = sums[..., 0], sums[..., 1]
    return np.divide(numerators, denominators, out=np.zeros_like(numerators), where=denominators > 0)


def resample(sentences: int, samples: int, seed: int = BOOTSTRAP_SEED) -> Floats:
    """(samples, sentences), how often each resample of the test set contains each sentence.

    Args:
        sentences: N of the test set and of each resample.
        samples: resamples.
        seed: of the random numbers.
    """
    drawn = np.random.default_rng(seed).multinomial(sentences, np.full(sentences, 1 / sentences), samples)
    return drawn.astype(np.float64)


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % interval of a bootstrap: (samples,) to (low, high)."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)
