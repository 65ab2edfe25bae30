"""BLEU of systems on the resamples of one test set, and how probable a difference is by chance (Koehn 2004).

sacreBLEU's own paired bootstrap answers whether one system differs from another, and counts only one side of large
differences. Here a system's BLEU on every resample comes back as an array, so that any statistic of any number of
systems (a difference, a gap, the change of a gap) has an interval.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from pipeline.bleu import make_bleu
from pipeline.errors import PipelineError
from pipeline.evaluation.bootstrap import SEED, Floats, resample
from pipeline.evaluation.quality import check_counts


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
