"""SARI: how well a simplification adds, keeps and deletes words (Xu et al. 2016), over the corpus as EASSE computes it.

Of the n-grams of each order 1 to 4, with S, C and R for their counts in the source, in the hypothesis and in all r
references together (min and max(0, difference) of counts are per n-gram; the set of n-grams of X is {X}):

              right                            by the hypothesis          by the references
    add       |({C} - {S}) & {R}|              |{C} - {S}|                |{R} - {S}|
    keep      sum min(r S, r C, R)             sum min(r S, r C)          sum min(r S, R)
    delete    sum min(r S - r C, r S - R)      sum (r S - r C)            sum (r S - R)

are summed over the corpus. Precision and recall are right / hypothesis and right / references, 0 if there are none;
SARI is the mean of F1 over the three operations and the four orders (Alva-Manchego et al. 2019). Sentences are
lower-cased and tokenised by sacreBLEU's 13a. Earlier figures in the literature are means over sentences,
with precision alone for deletions, and differ by a few points.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from pipeline.evaluation.metrics.n_grams import n_grams

ORDER = 4


class SariScore(NamedTuple):
    """The score of a corpus in percent."""

    sari: float
    sari_signature: str


def score_sari(hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> SariScore:
    """Score simplified sentences; see `edits.score_edits` for arguments and errors."""
    tokenize = Tokenizer13a()
    counts = np.zeros((ORDER, 3, 3))
    for texts in zip(sources, hypotheses, *references, strict=True):
        source, hypothesis, *correct = (tokenize(text.lower()).split() for text in texts)
        for n in range(ORDER):
            counts[n] += _operations(n_grams(source, n + 1), n_grams(hypothesis, n + 1),
                                     [n_grams(words, n + 1) for words in correct])
    right, made, wanted = np.moveaxis(counts, 2, 0)  # (ORDER, 3) each
    f1 = 2 * right / np.maximum(made + wanted, 1)  # of precision right / made and recall right / wanted
    signature = f"sari|refs:{len(references)}|case:lc|tok:13a|order:{ORDER}|average:corpus|delete:f1|version:1"
    return SariScore(100 * float(f1.mean()), signature)


def _operations(source: Counter[tuple[str, ...]], hypothesis: Counter[tuple[str, ...]],
                references: Sequence[Counter[tuple[str, ...]]]) -> list[list[int]]:
    """(3, 3): for adding, keeping and deleting, the n-grams that are right, of the hypothesis, of the references."""
    r = len(references)
    S, C = (Counter({gram: r * times for gram, times in grams.items()}) for grams in (source, hypothesis))
    R = sum(references, Counter())
    added, to_add = C.keys() - S.keys(), R.keys() - S.keys()
    kept, to_keep, deleted, to_delete = S & C, S & R, S - C, S - R
    return [[len(added & to_add), len(added), len(to_add)],
            [(kept & to_keep).total(), kept.total(), to_keep.total()],
            [(deleted & to_delete).total(), deleted.total(), to_delete.total()]]
