"""How much faster is each single sentence, and which ones are? (Figures 5 and 8 of the paper.)

Speeds of translation are against the baseline's beam 5, as in Figure 8, on the one clock, one sentence at a time, and
are plotted against the tokens that a call accepts. Speeds of a corrector are against its greedy search, as in Figure 5,
and are plotted against the edit ratio of the sentence: words to insert, delete or replace from source to output, over
the words of the source.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline import layout
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.drafting.context import DraftingContext, no_entries
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.bootstrap import Floats, correlation, ratio, speed_ratio
from pipeline.evaluation.metrics.edits import tokenize
from pipeline.evaluation.rows import Name
from pipeline.evaluation.speed import Contestant, measure

EditRatio = Callable[[int, Hypotheses], float]
"""From the index of a sentence and its translation."""


class Sample(NamedTuple):
    """A search on N sentences."""

    seconds: Floats
    """(N,)."""
    speedups: Floats
    """(N,), against the baseline's."""
    counts: Floats
    """(N, 2) tokens, the end symbol included, and calls."""
    edit_ratios: Floats | None
    """(N,)."""


def ask(context: DraftingContext) -> Finding:
    """Of some sentences of the test split."""
    if not context.entries:
        return no_entries()
    rows, sentences = context.test_sentences()
    corpus = context.run.params.corpus
    edit_ratio = _edit_ratio(context, rows) if corpus.source_language == corpus.target_language else None
    beam, greedy = context.references
    baseline = beam if edit_ratio is None else greedy
    return draft_speedup(baseline.contestant, [one.contestant for one in context.entries], sentences,
                         edit_ratio=edit_ratio, repetitions=context.settings.repetitions,
                         warmup=context.run.params.speed.warmup, device=context.run.device)


def _edit_ratio(context: DraftingContext, rows: Sequence[int]) -> EditRatio:
    """In words, of translations of these rows of the test split."""
    lines = layout.read_corpus(layout.CORPUS / "test.source")
    words = [tokenize(lines[row]) for row in rows]
    return lambda at, found: edit_distance(words[at], tokenize(context.texts(found)[0])) / max(len(words[at]), 1)


def draft_speedup(baseline: Contestant, searches: Sequence[Contestant], sentences: Sequence[Tensor], *,
                  edit_ratio: EditRatio | None, repetitions: int, warmup: int, device: torch.device) -> Finding:
    """Time every sentence under every search.

    Args:
        baseline: speeds are relative to it.
        searches: to analyse.
        sentences: N of (1, S) ids, on the device.
        edit_ratio: of a translation; None where source and target are of two languages.
        repetitions, warmup: see `speed.measure`.
        device: of the models.
    """
    times = measure([baseline, *searches], {1: sentences}, repetitions=repetitions, warmup=warmup,
                    device=device)[1].medians
    samples = {(one.family, one.decoder): _sample(one, sentences, times[0], seconds, edit_ratio)
               for one, seconds in zip(searches, times[1:], strict=True)}
    metric: dict[str, Any] = {"baseline": f"{baseline.family} {baseline.decoder}", "sentences": len(sentences),
                              "repetitions": repetitions, "device": device.type, "threads": torch.get_num_threads()}
    for (family, decoder), sample in samples.items():
        metric.setdefault(family, {})[decoder] = _summary(times[0], sample)
    return Finding(metric, _draw(samples, baseline))


def edit_distance(source: Sequence[str], target: Sequence[str]) -> int:
    """Fewest words to insert, delete or replace (Levenshtein 1966).

    >>> edit_distance("she go in school".split(), "she goes to school now".split())
    3
    """
    row = list(range(len(target) + 1))
    for i, mine in enumerate(source, start=1):
        diagonal, row[0] = row[0], i
        for j, theirs in enumerate(target, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (mine != theirs))
    return row[-1]


def tokens_and_calls(found: Hypotheses) -> tuple[float, float]:
    """The tokens of a sentence, its end symbol included, and the calls of the model that predicted them."""
    return (found.lengths[0, 0] + found.ended[0, 0]).item(), found.calls[0].item()


@torch.inference_mode()
def _sample(search: Contestant, sentences: Sequence[Tensor], baseline: Floats, seconds: Floats,
            edit_ratio: EditRatio | None) -> Sample:
    found = [search.translate(sentence) for sentence in sentences]
    ratios = None if edit_ratio is None else np.array([edit_ratio(row, one) for row, one in enumerate(found)])
    return Sample(seconds, baseline / seconds, np.array([tokens_and_calls(one) for one in found]), ratios)


def _summary(baseline: Floats, sample: Sample) -> dict[str, float]:
    names = ("minimum", "10_percent", "median", "90_percent", "maximum")
    quantiles = np.quantile(sample.speedups, (0, 0.1, 0.5, 0.9, 1)).tolist()
    summary = {**speed_ratio(baseline, sample.seconds).named("speedup"),
               **{f"sentence_{name}": value for name, value in zip(names, quantiles, strict=True)},
               "accepted_per_call": float(ratio(sample.counts.sum(0)))}
    causes = {"accepted": ratio(sample.counts)}
    if sample.edit_ratios is not None:
        summary["edit_ratio"] = float(sample.edit_ratios.mean())
        causes["edit_ratio"] = sample.edit_ratios
    for cause, values in causes.items():
        if found := correlation(values, sample.speedups):  # none where one of them does not vary
            summary |= found.named(f"correlation_with_{cause}")
    return summary


def _draw(samples: Mapping[Name, Sample], baseline: Contestant) -> Figure:
    figure, (spread, against) = chart.new_picture(2)
    edits = any(sample.edit_ratios is not None for sample in samples.values())
    for (name, sample), colour in chart.coloured(samples.items()):
        rising = np.sort(sample.speedups)
        share = 100 * (1 - np.arange(len(rising) + 1) / len(rising))
        spread.step([*rising, rising[-1]], share, where="pre", color=colour, linewidth=1.6, label=" ".join(name))
        x = ratio(sample.counts) if sample.edit_ratios is None else sample.edit_ratios
        against.plot(x, sample.speedups, color=colour, linestyle="", marker="o", markersize=3.5, alpha=0.6)
    for axes in (spread, against):
        axes.margins(0.05)
    spread.axvline(1, color=chart.THEME.muted, linewidth=1, linestyle="--")
    against.axhline(1, color=chart.THEME.muted, linewidth=1, linestyle="--")
    chart.name_axes(spread, f"times as fast as {baseline.decoder}, at least", "sentences, %", "one sentence at a time")
    chart.name_axes(against, "words edited, per word of the source" if edits else "tokens per call",
                    f"times as fast as {baseline.family} {baseline.decoder}")
    chart.add_legend(figure, 4 if len(samples) < 5 else 3)
    return figure
