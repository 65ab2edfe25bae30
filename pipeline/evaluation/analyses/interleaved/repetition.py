"""How often is something translated twice? (Figure 4 of the paper, right.)

Words that are predicted in the same step cannot see each other, so they may repeat each other. Counted are n-grams that
a hypothesis has more often than any reference has, and more than once, as shares of all its n-grams. A repetition that
a reference has too ("0 0") is none. The paper's OTEM (Yang et al. 2018) joins such shares into one figure with a length
penalty; here every n is reported for itself.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pipeline.bleu import make_bleu
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.orders import OrderContext, Rival, share_with_difference
from pipeline.evaluation.bootstrap import Floats, resample
from pipeline.evaluation.metrics.n_grams import n_grams
from pipeline.evaluation.rows import Name

ORDERS = (1, 2, 3, 4)
"""Lengths of n-grams."""
COMPARED = (("interleaved_sa_raw beam4", "interleaved_raw beam4"), ("interleaved_sa beam4", "interleaved beam4"),
            ("interleaved_raw beam4", "interleaved_distilled beam4"))
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
    metric: dict[str, Any] = {"sentences": len(references[0])}
    for rival in rivals:
        metric[" ".join(rival.name)] = {"counterpart": " ".join(rival.counterpart)} | {
            f"{n}-gram": share_with_difference(counts[rival.name][n], counts[rival.counterpart][n], times)
            for n in ORDERS}
    by_name = {" ".join(name): found for name, found in counts.items()}
    metric["differences"] = {f"{more} - {less}": share_with_difference(by_name[more][1], by_name[less][1], times)
                             for more, less in COMPARED if {more, less} <= metric.keys()}
    return Finding(metric, _draw(counts, metric))


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


def _draw(counts: Mapping[Name, Mapping[int, Floats]], metric: Mapping[str, Any]) -> Figure:
    figure, panels = chart.new_picture(2)
    for axes, n in zip(panels, ORDERS, strict=False):
        shares = {" ".join(name): 100 * of_n[n][:, 0].sum() / max(of_n[n][:, 1].sum(), 1)
                  for name, of_n in counts.items()}
        chart.bars(axes, shares, chart.COLOURS[:1])
        chart.name_axes(axes, f"surplus {n}-grams, %", "", f"{metric['sentences']} sentences" if n == 1 else "")
    panels[1].set_yticklabels([])
    return figure
