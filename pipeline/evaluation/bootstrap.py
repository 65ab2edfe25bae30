"""BLEU on many resamples of the test set at once.

sacreBLEU's own paired bootstrap answers whether one system differs from another. Here a system's BLEU on every resample
comes back as an array, so that any statistic of any number of systems (a gap, the change of a gap) has an interval.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import PipelineError
from pipeline.evaluation.quality import check_counts, make_bleu

Floats = NDArray[np.float64]

INTERVAL = (0.025, 0.975)


class Resampled:
    """BLEU of systems on the same resamples of one test set: differences between systems are paired (Koehn 2004)."""

    def __init__(self, references: Sequence[Sequence[str]], tokenizer: str, samples: int, seed: int) -> None:
        """Args:
            references: (R, N), R per sentence.
            tokenizer: sacreBLEU's name of BLEU's tokenizer.
            samples: resamples, of N sentences each.
            seed: of the resamples.

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
        self.times = np.random.default_rng(seed).multinomial(N, np.full(N, 1 / N), samples).astype(np.float64)
        """(samples, N), how often each resample contains each sentence."""

    def __call__(self, hypotheses: Sequence[str]) -> tuple[float, Floats]:
        """BLEU in percent of a system's (N,) hypotheses, and on every resample (samples,).

        Raises:
            PipelineError: another number of hypotheses than references.
        """
        check_counts("hypotheses", hypotheses, self._references)
        counts = self._counts(hypotheses)
        return float(corpus_bleu(counts.sum(0))), corpus_bleu(self.times @ counts)

    def _counts(self, hypotheses: Sequence[str]) -> Floats:
        """(N, 10): n-gram matches and n-grams of orders 1 to 4, words, words of the reference nearest in length."""
        scores = (self._bleu.sentence_score(hypothesis, correct)
                  for hypothesis, *correct in zip(hypotheses, *self._references, strict=True))
        return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in scores], dtype=np.float64)


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % interval of a bootstrap: (samples,) to (low, high)."""
    low, high = np.quantile(values, INTERVAL)
    return float(low), float(high)


def corpus_bleu(counts: Floats) -> Floats:
    """BLEU in percent with sacreBLEU's exponential smoothing, from summed counts.

    Args:
        counts: (..., 10) as in `Resampled`.

    Returns:
        (...).

    >>> perfect, half = [5, 4, 3, 2, 5, 4, 3, 2, 5, 5], [5, 4, 3, 2, 5, 4, 3, 2, 5, 10]
    >>> corpus_bleu(np.array([perfect, half], dtype=np.float64)).round(3).tolist()
    [100.0, 36.788]
    """
    matches, totals, words, expected = counts[..., :4], counts[..., 4:8], counts[..., 8], counts[..., 9]
    missed = matches == 0
    # The k-th order without a match counts as 1 / 2^k matches.
    smoothed = np.where(missed, 0.5 ** missed.cumsum(-1), matches)
    precision = np.exp(np.log(smoothed / np.maximum(totals, 1)).mean(-1))
    brevity = np.exp(np.minimum(0, 1 - expected / np.maximum(words, 1)))
    # Undefined without a match or without a single n-gram of an order: sacreBLEU returns 0.
    return 100 * np.where(missed.all(-1) | (totals == 0).any(-1), 0, brevity * precision)
