"""Does the verb agree with its subject? (Figure 5 of the paper.)

A system that generates from both ends, or several words per step, predicts some verbs before or beside their subjects.
Each system scores two translations that differ in the number of the verb. Counted is how often the right one is more
probable, by the number of words between subject and verb. The paper scores Lingeval97 (Sennrich 2017); the sentences
here are those of a small grammar.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.interleaved.grammar import Contrast, contrasts
from pipeline.evaluation.analyses.orders import OrderContext, share_with_difference
from pipeline.evaluation.analyses.sentences import make_batches, sentence_losses
from pipeline.evaluation.bootstrap import Floats, resample

_ROWS = 32
"""Sentences per batch."""
LANGUAGES = "en", "de"
"""Those of the grammar."""

Counts = Mapping[int, Floats]
"""(N, 2) by the distance of subject and verb: 1 where the right translation is more probable than the wrong one, and
1."""


def ask(context: OrderContext) -> Finding:
    """Over all sentences of the grammar."""
    if not context.rivals:
        return context.not_measured()
    run, corpus = context.run, context.run.params.corpus
    if (corpus.source_language, corpus.target_language) != LANGUAGES:
        return not_measured("the sentences are English and German, and the corpus is not")
    counterparts = {rival.family: rival.counterpart[0] for rival in context.rivals}
    by_distance: dict[int, list[Contrast]] = {}
    for one in contrasts():
        by_distance.setdefault(one.distance, []).append(one)
    found = {family: {distance: agreeing(run, family, some) for distance, some in by_distance.items()}
             for family in dict.fromkeys([*counterparts.values(), *counterparts])}
    return agreement(counterparts, found, samples=run.params.evaluation.bootstrap_samples)


def agreeing(run: FinishedRun, family: str, pairs: Sequence[Contrast]) -> Floats:
    """(N, 2): 1 where a family gives the right translation more probability than the wrong one, and 1."""
    network = run.network(family)
    sources = run.tokenizer.encode_source([pair.source for pair in pairs])
    losses = []
    for translations in ([pair.right for pair in pairs], [pair.wrong for pair in pairs]):
        encoded = list(zip(sources, run.tokenizer.encode_target(translations), strict=True))
        # Both sides have the same sources, hence the same order.
        batches, _ = make_batches(encoded, rows=_ROWS, longest=network.settings.max_length, device=run.device)
        losses.append(sentence_losses(network, batches)[:, 0])
    right, wrong = losses
    return np.stack([right < wrong, np.ones(len(right))], 1).astype(np.float64)


def agreement(counterparts: Mapping[str, str], counts: Mapping[str, Counts], *, samples: int) -> Finding:
    """Compare the shares of right verbs with those of counterparts.

    Args:
        counterparts: by family, the one that it is compared with; another family has itself.
        counts: by family.
        samples: resamples of the paired bootstrap.
    """
    sizes = {distance: len(some) for distance, some in sorted(next(iter(counts.values())).items())}
    metric: dict[str, Any] = {"sentences": {str(distance): size for distance, size in sizes.items()}}
    for family, mine in counts.items():
        counterpart = counterparts.get(family, family)
        metric[family] = {"counterpart": counterpart} | {
            str(distance): share_with_difference(mine[distance], counts[counterpart][distance],
                                                 resample(size, samples)) for distance, size in sizes.items()}
    return Finding(metric, _draw(metric, list(counts), list(sizes)))


def _draw(metric: Mapping[str, Any], families: Sequence[str], distances: Sequence[int]) -> Figure:
    figure, (axes,) = chart.new_picture()
    for family, colour in chart.first_coloured(families):
        chart.curve(axes, distances, [metric[family][str(distance)]["percent"] for distance in distances], colour,
                    label=family)
    axes.axhline(50, color=chart.THEME.muted, linewidth=1)
    axes.set_xticks(distances)
    chart.name_axes(axes, "words between subject and verb", "verbs that agree, %",
                    ", ".join(filter(None, (f"{sum(metric['sentences'].values())} sentences", chart.of_all(families)))))
    chart.add_legend(figure, 4)
    return figure
