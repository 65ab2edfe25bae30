"""BLEU on many resamples of the test set at once.

sacreBLEU's own paired bootstrap answers whether one system differs from another. Here a system's BLEU on every resample
comes back as an array, so that any statistic of any number of systems (a gap, the change of a gap) has an interval.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from pipeline.errors import PipelineError
from pipeline.evaluation.quality import check_counts, make_bleu

Floats = NDArray[np.float64]


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
        scores = (self._bleu.sentence_score(hypothesis, correct)
                  for hypothesis, *correct in zip(hypotheses, *self._references, strict=True))
        counts = np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in scores], dtype=np.float64)
        return _corpus_bleu(counts.sum(0)), np.array([_corpus_bleu(resample) for resample in self.times @ counts])


def _corpus_bleu(counts: Floats) -> float:
    """BLEU from (10,) sums: n-gram matches and n-grams of orders 1 to 4, tokens, tokens of the nearest references."""
    *n_grams, length, expected = counts.astype(int).tolist()
    return float(BLEU.compute_bleu(n_grams[:4], n_grams[4:], length, expected, smooth_method="exp").score)


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % interval of a bootstrap: (samples,) to (low, high)."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)
