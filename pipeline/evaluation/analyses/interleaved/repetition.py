"""How often is something translated twice? (Figure 4 of the paper, right.)

Words that are predicted in the same step cannot see each other, so they may repeat each other. Counted are n-grams that
a hypothesis has more often than any reference has, and more than once, as shares of all its n-grams. A repetition that
a reference has too ("0 0") is none. The paper's OTEM (Yang et al. 2018) joins the shares of words and of bigrams.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pipeline.bleu import make_bleu
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.orders import OrderContext, Rival, share_with_difference
from pipeline.evaluation.bootstrap import Estimate, Floats, interval, ratio, resample
from pipeline.evaluation.metrics.n_grams import n_grams
from pipeline.evaluation.rows import Name

ORDERS = (1, 2, 3, 4)
"""Lengths of n-grams."""
_GROWING = ("interleaved_raw", "interleaved_sa_raw", *(f"interleaved_{words}_raw" for words in range(3, 7)))
"""Of one word per direction and step, of two, and so on."""
COMPARED = (*((f"{more} beam4", f"{less} beam4") for less, more in pairwise(_GROWING)),
            ("interleaved_sa beam4", "interleaved beam4"),
            *((f"{family}_raw beam4", f"{family}_distilled beam4") for family in ("interleaved", "interleaved_sa")))
"""Rivals whose difference is also measured, the one that should repeat more first."""

Tokens = Sequence[str]


def ask(context: OrderContext) -> Finding:
    """Over the entire test split."""
    if not context.rivals:
        return context.not_measured()
    evaluation = context.run.params.evaluation
    tokenize = make_bleu(evaluation.bleu_tokenizer).tokenizer
    return repetition(context.rivals,
                      {name: [tokenize(line).split() for line in lines] for name, lines in context.texts().items()},
                      [[tokenize(line).split() for line in one] for one in context.run.references()],
                      samples=evaluation.bootstrap_samples)


def repetition(rivals: Sequence[Rival], texts: Mapping[Name, Sequence[Tokens]],
               references: Sequence[Sequence[Tokens]], *, samples: int) -> Finding:
    """Compare the shares of surplus n-grams.

    Args:
        rivals: families of other orders.
        texts: hypotheses (N,) of all of them and of their counterparts, as tokens.
        references: (R, N).
        samples: resamples of the paired bootstrap.
    """
    times = resample(len(references[0]), samples)
    counts = {name: {n: surplus_counts(lines, references, n) for n in ORDERS} for name, lines in texts.items()}
    sums = {" ".join(name): np.hstack([counts[name][1], counts[name][2], closest_lengths(lines, references)])
            for name, lines in texts.items()}
    figures = {name: float(otem(one.sum(0))) for name, one in sums.items()}

    def with_difference(mine: str, theirs: str) -> dict[str, float]:
        difference = Estimate(figures[mine] - figures[theirs],
                              *interval(otem(times @ sums[mine]) - otem(times @ sums[theirs]), len(references[0])))
        return {"otem": figures[mine], **difference.named("difference")}

    metric: dict[str, Any] = {"sentences": len(references[0])}
    for rival in rivals:
        name, counterpart = " ".join(rival.name), " ".join(rival.counterpart)
        metric[name] = {"counterpart": counterpart, **with_difference(name, counterpart)} | {
            f"{n}-gram": share_with_difference(counts[rival.name][n], counts[rival.counterpart][n], times)
            for n in ORDERS}
    metric["differences"] = {f"{more} - {less}": with_difference(more, less)
                             for more, less in COMPARED if {more, less} <= metric.keys()}
    return Finding(metric, _draw(figures, counts, metric))


def otem(sums: Floats) -> Floats:
    """Over-translation in percent: the geometric mean of the shares of surplus words and bigrams, times a penalty for
    hypotheses that are longer than their references.

    Args:
        sums: (..., 5) over sentences: surplus words, words, surplus bigrams, bigrams, and words of the references.

    >>> round(float(otem(np.array([4.0, 40.0, 1.0, 25.0, 40.0]))), 2)
    6.32
    """
    relative = ratio(sums[..., [4, 1]])  # the references' length to the hypotheses'
    return 100 * np.exp(np.maximum(1 - relative, 0)) * np.sqrt(ratio(sums[..., :2]) * ratio(sums[..., 2:4]))


def closest_lengths(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> Floats:
    """(N, 1), for each sentence the words of the reference whose length is closest, the shorter of two."""
    return np.array([[min((len(one[row]) for one in references), key=lambda words: (abs(words - len(tokens)), words))]
                     for row, tokens in enumerate(hypotheses)], np.float64)


def surplus_counts(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], n: int) -> Floats:
    """(N, 2) of each sentence: surplus n-grams of the hypothesis, and all of its n-grams.

    >>> surplus_counts([["0", "0", "cat", "cat", "dog"]], [[["0", "0", "cat"]]], 1).tolist()
    [[1.0, 5.0]]
    """
    counts = np.zeros((len(hypotheses), 2))
    for row, tokens in enumerate(hypotheses):
        found = n_grams(tokens, n)
        allowed = Counter(dict.fromkeys(found, 1))
        for one in references:
            allowed |= n_grams(one[row], n)
        counts[row] = (found - allowed).total(), found.total()
    return counts


def _draw(figures: Mapping[str, float], counts: Mapping[Name, Mapping[int, Floats]],
          metric: Mapping[str, Any]) -> Figure:
    figure, (joined, words) = chart.new_picture(2)
    chart.bars(joined, figures, chart.COLOURS[:1])
    chart.name_axes(joined, "OTEM, %", "", f"{metric['sentences']} sentences")
    chart.bars(words, {" ".join(name): 100 * float(ratio(of_n[1].sum(0))) for name, of_n in counts.items()},
               chart.COLOURS[:1])
    chart.name_axes(words, "surplus words, %", "")
    words.set_yticklabels([])
    return figure
