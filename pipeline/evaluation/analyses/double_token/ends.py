"""How precise are the first and the last words of a translation? (Table 3 of the paper.)

The precision of unigrams and 4-grams of hypotheses that are limited to some tokens from the head or the tail, for each
family of another order beside its counterpart under as many beams. An n-gram is right if the reference has it, as often
as it is claimed. The paper counts sentences of more than 30 tokens; here a reference is long enough for a part if it
has a second one at its other end.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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

Tokens = Sequence[str]


class Part(NamedTuple):
    """Some tokens of a hypothesis."""

    limit: slice
    least: int
    """The tokens of the shortest references that count."""


PARTS = {"all": Part(slice(None), 2 * min(LIMITS)), **{f"first {n}": Part(slice(n), 2 * n) for n in LIMITS},
         **{f"last {n}": Part(slice(-n, None), 2 * n) for n in LIMITS}}


def ask(context: OrderContext) -> Finding:
    """Over the test references that are long enough."""
    if not context.rivals:
        return context.not_measured()
    params = context.run.params
    tokenize = make_bleu(params.evaluation.bleu_tokenizer).tokenizer

    def tokens(lines: Sequence[str]) -> list[Tokens]:
        return [tokenize(line).split() for line in lines]

    references = [tokens(one) for one in context.run.references()]
    least = 2 * min(LIMITS)
    if all(len(one) < least for one in references[0]):
        return not_measured(f"no test reference has {least} tokens, two ends of {min(LIMITS)}")
    return ends(context.rivals, {name: tokens(lines) for name, lines in context.texts().items()},
                references, samples=params.evaluation.bootstrap_samples)


def ends(rivals: Sequence[Rival], texts: Mapping[Name, Sequence[Tokens]],
         references: Sequence[Sequence[Tokens]], *, samples: int) -> Finding:
    """Compare the precision of the parts of hypotheses.

    Args:
        rivals: families of other orders.
        texts: hypotheses (N,) of all of them and of their counterparts, as tokens.
        references: (R, N); parts for which none of the first ones is long enough are left out.
        samples: resamples of the paired bootstrap.
    """
    long = {name: [row for row, one in enumerate(references[0]) if len(one) >= part.least]
            for name, part in PARTS.items()}
    long = {name: rows for name, rows in long.items() if rows}
    metric: dict[str, Any] = {"sentences": {name: len(rows) for name, rows in long.items()}}
    for rival in rivals:
        found: dict[str, Any] = {"counterpart": " ".join(rival.counterpart)}
        for name, rows in long.items():
            some, times = [[one[row] for row in rows] for one in references], resample(len(rows), samples)
            found[name] = {}
            for n in ORDERS:
                mine, theirs = (precision_counts([texts[system][row] for row in rows], some, n, PARTS[name].limit)
                                for system in (rival.name, rival.counterpart))
                found[name][f"{n}-gram"] = share_with_difference(mine, theirs, times)
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
    shown, parts = list(chart.first_coloured(rivals)), metric["sentences"]
    for axes, n in zip(panels, ORDERS, strict=True):
        for at, (rival, colour) in enumerate(shown):
            rows = [metric[" ".join(rival.name)][part][f"{n}-gram"] for part in parts]
            values = np.array([row["difference"] for row in rows])
            errors = np.abs(np.array([[row["difference_low"], row["difference_high"]] for row in rows]).T - values)
            places = np.arange(len(parts)) + 0.8 * (at + 0.5) / len(shown) - 0.4
            axes.barh(places, values, 0.7 / len(shown), color=colour, xerr=errors,
                      error_kw={"ecolor": chart.THEME.muted, "linewidth": 1},
                      label=" ".join(rival.name) if n == ORDERS[0] else None)
        axes.set_yticks(range(len(parts)), [f"{name} ({number})" for name, number in parts.items()])
        axes.invert_yaxis()
        axes.axvline(0, color=chart.THEME.muted, linewidth=1)
        chart.name_axes(axes, f"{n}-gram precision, difference in points", "",
                        "tokens (sentences)" if n == ORDERS[0] else chart.of_all(rivals))
    chart.add_legend(figure, 3)
    return figure
