"""GLEU: BLEU for correctors, which penalises uncorrected errors (Napoles et al. 2015, 2016).

BLEU against corrections rewards a system that changes nothing, because most words are right. GLEU compares the source
too. For a sentence with the words C of the hypothesis, S of the source and R of a reference, where X(g) is the number
of occurrences of an n-gram g in X,

    matches_n = max(0, sum over g of min(C(g), R(g)) - sum over g absent from R of min(C(g), S(g)))
    total_n   = max(0, |C| - n + 1)

An n-gram that the hypothesis has in common with the source but not with the reference is not a match, and cancels
another one. Both are summed over the corpus, as are the words |C| = c and |R| = r, and

    GLEU = exp(min(0, 1 - r / c)) * (product over n = 1 .. 4 of matches_n / total_n) ^ (1/4),

0 where an order has no match. With several references, the score is the mean over 500 draws of one reference per
sentence (2016, which also drops the weight of the penalty). The draws are seeded: all systems have the same ones.

Where R has an n-gram of the source, but fewer times, the paper's formula subtracts the difference; the authors' scorer,
which published figures come from, does not. This module agrees with the scorer. Its tokens are those of `edits.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluation.metrics.edits import tokenize
from pipeline.evaluation.metrics.n_grams import n_grams

ORDER = 4
DRAWS = 500
SEED = 1

Floats = NDArray[np.float64]


class GleuScore(NamedTuple):
    """The score of a corpus in percent."""

    gleu: float
    gleu_signature: str


def score_gleu(hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> GleuScore:
    """Score corrected sentences; see `edits.score_edits` for arguments and errors."""
    N, R = len(hypotheses), len(references)
    hypothesis_words, source_words = [*map(tokenize, hypotheses)], [*map(tokenize, sources)]
    totals = np.array([[*(max(0, len(words) - n) for n in range(ORDER)), len(words)] for words in hypothesis_words],
                      dtype=np.float64).sum(0)
    draws = np.random.default_rng(SEED).integers(R, size=(DRAWS, N))
    drawn = np.zeros((DRAWS, ORDER + 1))
    for place, reference in enumerate(references):
        matches = [_matches(*words) for words in
                   zip(hypothesis_words, source_words, map(tokenize, reference), strict=True)]
        drawn += (draws == place).astype(np.float64) @ np.array(matches, dtype=np.float64)
    signature = f"gleu|refs:{R}|case:mixed|tok:words|order:{ORDER}|draws:{DRAWS}|seed:{SEED}|version:2"
    return GleuScore(100 * float(corpus_gleu(drawn, totals).mean()), signature)


def corpus_gleu(matches: Floats, totals: Floats) -> Floats:
    """GLEU between 0 and 1, from summed counts.

    Args:
        matches: (..., 5) matches of orders 1 to 4, words of the references.
        totals: (5,) n-grams of orders 1 to 4 and words of the hypotheses.

    Returns:
        (...).

    >>> corpus_gleu(np.array([[4, 3, 2, 1, 4], [4, 3, 2, 1, 8], [4, 3, 2, 0, 4]]), np.array([4, 3, 2, 1, 4])).round(3)
    array([1.   , 0.368, 0.   ])
    """
    n_grams, words = np.maximum(totals[:-1], 1), max(totals[-1], 1)
    with np.errstate(divide="ignore"):  # no match: log 0 = -inf, which exp turns into 0
        precision = np.exp(np.log(matches[..., :-1] / n_grams).mean(-1))
    return np.exp(np.minimum(0, 1 - matches[..., -1] / words)) * precision


def _matches(hypothesis: Sequence[str], source: Sequence[str], reference: Sequence[str]) -> list[int]:
    counts = []
    for n in range(1, ORDER + 1):
        mine, before, correct = (n_grams(words, n) for words in (hypothesis, source, reference))
        match = sum(min(times, correct[gram]) for gram, times in mine.items())
        kept_errors = sum(min(times, before[gram]) for gram, times in mine.items() if gram not in correct)
        counts.append(max(0, match - kept_errors))
    return [*counts, len(reference)]
