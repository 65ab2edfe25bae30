"""Does the verb agree with its subject? (Figure 5 of the paper.)

A system that generates from both ends, or several words per step, predicts some verbs before or beside their subjects.
Each system scores two translations that differ in the number of the verb. Counted is how often the right one is more
probable, by the number of words between subject and verb. The paper scores Lingeval97 (Sennrich 2017); the sentences
here are those of a small grammar. They share subjects and predicates, so the bootstrap draws both of these, and not
sentences.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.interleaved.grammar import PREDICATES, SUBJECTS, Contrast, contrasts
from pipeline.evaluation.analyses.orders import OrderContext, share_with_difference
from pipeline.evaluation.analyses.sentences import by_length, make_batches, sentence_losses
from pipeline.evaluation.bootstrap import SEED, Floats, resample

_ROWS = 32
"""Sentences per batch."""
LANGUAGES = "en", "de"
"""Those of the grammar."""
APART = "apart"
"""The name of all distances but 0, together, in the metrics file."""


def ask(context: OrderContext) -> Finding:
    """Over all sentences of the grammar."""
    if not context.rivals:
        return context.not_measured()
    run, corpus = context.run, context.run.params.corpus
    if (corpus.source_language, corpus.target_language) != LANGUAGES:
        return not_measured("the sentences are English and German, and the corpus is not")
    counterparts, pairs = {rival.family: rival.counterpart[0] for rival in context.rivals}, list(contrasts())
    counts = {family: agreeing(run, family, pairs) for family in dict.fromkeys([*counterparts.values(), *counterparts])}
    return agreement(counterparts, pairs, counts, samples=run.params.evaluation.bootstrap_samples)


def agreeing(run: FinishedRun, family: str, pairs: Sequence[Contrast]) -> Floats:
    """(N, 2), per sentence whether a family gives the right translation more probability than the wrong one, and 1."""
    network = run.network(family)
    sources = run.tokenizer.encode_source([pair.source for pair in pairs])
    losses = []
    for translations in ([pair.right for pair in pairs], [pair.wrong for pair in pairs]):
        encoded = list(zip(sources, run.tokenizer.encode_target(translations), strict=True))
        batches, _ = make_batches(encoded, rows=_ROWS, longest=network.settings.max_length, device=run.device)
        losses.append(sentence_losses(network, batches)[:, 0])
    (right, wrong), found = losses, np.ones((len(pairs), 2))
    found[np.concatenate([*by_length(sources, _ROWS)]), 0] = right < wrong  # batches have the longest sources first
    return found


def agreement(counterparts: Mapping[str, str], pairs: Sequence[Contrast], counts: Mapping[str, Floats], *,
              samples: int) -> Finding:
    """Compare the shares of right verbs with those of counterparts.

    Args:
        counterparts: by family, the one that it is compared with; another family has itself.
        pairs: N.
        counts: of each family, see `agreeing`.
        samples: resamples of the paired bootstrap.
    """
    distances = np.array([pair.distance for pair in pairs])
    chosen = {str(distance): distances == distance for distance in np.unique(distances)} | {APART: distances > 0}
    times = crossed(pairs, samples)
    metric: dict[str, Any] = {"subjects": len(SUBJECTS), "predicates": len(PREDICATES),
                              "sentences": {name: int(some.sum()) for name, some in chosen.items()}}
    for family, mine in counts.items():
        counterpart = counterparts.get(family, family)
        metric[family] = {"counterpart": counterpart} | {
            name: share_with_difference(mine[some], counts[counterpart][some], times[:, some], units=len(PREDICATES))
            for name, some in chosen.items()}
    return Finding(metric, _draw(metric, list(counts), np.unique(distances).tolist()))


def crossed(pairs: Sequence[Contrast], samples: int) -> Floats:
    """(samples, N), how often each resample contains each sentence, if subjects and predicates are drawn for themselves
    (Owen 2007, "The pigeonhole bootstrap")."""
    subjects, predicates = resample(len(SUBJECTS), samples), resample(len(PREDICATES), samples, SEED + 1)
    return subjects[:, [pair.subject for pair in pairs]] * predicates[:, [pair.predicate for pair in pairs]]


def _draw(metric: Mapping[str, Any], families: Sequence[str], distances: Sequence[int]) -> Figure:
    figure, (axes,) = chart.new_picture()
    for family, colour in chart.first_coloured(families):
        chart.curve(axes, distances, [metric[family][str(distance)]["percent"] for distance in distances], colour,
                    label=family)
    axes.axhline(50, color=chart.THEME.muted, linewidth=1)
    axes.set_xticks(distances)
    chart.name_axes(axes, "words between subject and verb", "verbs that agree, %",
                    ", ".join(filter(None, (f"{sum(metric['sentences'][str(one)] for one in distances)} sentences",
                                            chart.of_all(families)))))
    chart.add_legend(figure, 4)
    return figure
