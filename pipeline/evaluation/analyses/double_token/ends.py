"""How precise are the first and the last words of a translation? (Table 3 of the paper.)

The precision of unigrams and 4-grams of hypotheses that are limited to some tokens from the head or the tail, for each
family of another order beside the baseline under as many beams. An n-gram is right if the reference has it, as often as
it is claimed. As in the paper, only long sentences count.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pipeline.bleu import make_bleu
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.orders import OrderContext, Rival, share_with_difference
from pipeline.evaluation.bootstrap import Floats, resample
from pipeline.evaluation.metrics.n_grams import n_grams
from pipeline.evaluation.rows import Name

ORDERS = (1, 4)
"""Lengths of n-grams."""
LIMITS = (5, 10, 15)
"""Tokens from an end."""
PARTS: dict[str, slice] = {"all": slice(None), **{f"first {n}": slice(n) for n in LIMITS},
                           **{f"last {n}": slice(-n, None) for n in LIMITS}}
"""The limited parts of a hypothesis."""

Tokens = Sequence[str]


def ask(context: OrderContext) -> Finding:
    """Over the test references of at least `speed.long_tokens` tokens."""
    if not context.rivals:
        return context.not_measured()
    params = context.run.params
    tokenize = make_bleu(params.evaluation.bleu_tokenizer).tokenizer
    references = [[tokenize(line).split() for line in one] for one in context.run.references()]
    rows = [row for row, tokens in enumerate(references[0]) if len(tokens) >= params.speed.long_tokens]
    if not rows:
        return not_measured(f"no test reference has {params.speed.long_tokens} tokens (speed.long_tokens)")
    texts = {name: [tokenize(lines[row]).split() for row in rows] for name, lines in context.texts().items()}
    return ends(context.baseline, context.rivals, texts, [[one[row] for row in rows] for one in references],
                samples=params.evaluation.bootstrap_samples)


def ends(baseline: str, rivals: Sequence[Rival], texts: Mapping[Name, Sequence[Tokens]],
         references: Sequence[Sequence[Tokens]], *, samples: int) -> Finding:
    """Compare the precision of the parts of hypotheses.

    Args:
        baseline: the family that rivals are compared with.
        rivals: families of other orders.
        texts: hypotheses (N,) of all of them, as tokens.
        references: (R, N).
        samples: resamples of the paired bootstrap.
    """
    times = resample(len(references[0]), samples)
    metric: dict[str, Any] = {"sentences": len(references[0])}
    for rival in rivals:
        found: dict[str, Any] = {"counterpart": f"{baseline} {rival.counterpart}"}
        for part, limit in PARTS.items():
            found[part] = {}
            for n in ORDERS:
                mine, theirs = (precision_counts(texts[name], references, n, limit)
                                for name in (rival.name, (baseline, rival.counterpart)))
                found[part][f"{n}-gram"] = share_with_difference(mine, theirs, times)
        metric[" ".join(rival.name)] = found
    return Finding(metric, _draw(metric, rivals))


def precision_counts(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], n: int,
                     part: slice) -> Floats:
    """(N, 2) of each sentence: right n-grams in a part of the hypothesis, and all n-grams there.

    >>> precision_counts([["the", "the", "cat"]], [[["the", "cat", "sat"]]], 1, slice(2)).tolist()
    [[1.0, 2.0]]
    """
    counts = np.zeros((len(hypotheses), 2))
    for row, tokens in enumerate(hypotheses):
        claimed = n_grams(tokens[part], n)
        there = Counter[tuple[str, ...]]()
        for one in references:
            there |= n_grams(one[row], n)
        counts[row] = (claimed & there).total(), claimed.total()
    return counts


def _draw(metric: Mapping[str, Any], rivals: Sequence[Rival]) -> Figure:
    figure, panels = chart.new_picture(len(ORDERS))
    shown = list(chart.first_coloured(rivals))
    for axes, n in zip(panels, ORDERS, strict=True):
        for at, (rival, colour) in enumerate(shown):
            rows = [metric[" ".join(rival.name)][part][f"{n}-gram"] for part in PARTS]
            values = np.array([row["difference"] for row in rows])
            errors = np.abs(np.array([[row["difference_low"], row["difference_high"]] for row in rows]).T - values)
            places = np.arange(len(PARTS)) + 0.8 * (at + 0.5) / len(shown) - 0.4
            axes.barh(places, values, 0.7 / len(shown), color=colour, xerr=errors,
                      error_kw={"ecolor": chart.THEME.muted, "linewidth": 1},
                      label=" ".join(rival.name) if n == ORDERS[0] else None)
        axes.set_yticks(range(len(PARTS)), list(PARTS))
        axes.invert_yaxis()
        axes.axvline(0, color=chart.THEME.muted, linewidth=1)
        chart.name_axes(axes, f"precision of {n}-grams against the baseline, points", "",
                        f"{metric['sentences']} long sentences" if n == ORDERS[0] else chart.of_all(rivals))
    chart.add_legend(figure, 3)
    return figure
