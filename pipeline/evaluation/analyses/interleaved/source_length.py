"""Do quality and gain depend on the length of the source? (Figure 3 of the paper.)

The test split is divided into bins of as many sentences each by the length of the source. A family of another order and
its counterpart under as many beams have a BLEU in each bin; some sentences of each bin are timed on the one clock.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from pipeline.bleu import make_bleu
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.orders import OrderContext, Rival
from pipeline.evaluation.bootstrap import Floats, quotient, speed_ratio
from pipeline.evaluation.rows import Name
from pipeline.evaluation.speed import Contestant, measure

BINS, TIMED = 8, 48
"""Bins, and the sentences of each that are timed."""


class Bin(NamedTuple):
    """Sentences of similar length."""

    rows: list[int]
    """Of the test split."""
    length: float
    """Their mean length in pieces."""


def ask(context: OrderContext) -> Finding:
    """Over the entire test split."""
    if not context.rivals:
        return context.not_measured()
    run, names = context.run, context.names()
    sources = run.sources()
    bins = equal_bins([len(source) for source in sources], BINS)
    if not bins:
        return not_measured(f"the test split has fewer than {BINS} sentences")
    networks = {family: run.network(family) for family, _ in names}
    longest = min(network.settings.max_length for network in networks.values())
    contestants = [Contestant(family, decoder, partial(make_decoder(
        decoder, run.params.decoder(decoder), run.limit(networks[family])), networks[family]))
        for family, decoder in names]
    sentences = []
    for one in bins:
        sentences += run.spread_sources([sources[row] for row in one.rows], TIMED, longest)[1]
    seconds = measure(contestants, {1: sentences}, repetitions=run.params.speed.repetitions,
                      warmup=run.params.speed.warmup, device=run.device)[1].medians
    per_bin = np.split(seconds, np.cumsum([min(TIMED, len(one.rows)) for one in bins])[:-1], axis=1)
    return source_length(context.rivals, bins, context.texts(), context.run.references(),
                         dict(zip(names, zip(*per_bin, strict=True), strict=True)),
                         tokenizer=run.params.evaluation.bleu_tokenizer)


def equal_bins(lengths: Sequence[int], bins: int) -> list[Bin]:
    """Bins of as many sentences each, shortest sentences first; none where there are fewer sentences than bins.

    >>> [one.rows for one in equal_bins([5, 1, 9, 2], 2)]
    [[1, 3], [0, 2]]
    """
    if len(lengths) < bins:
        return []
    parts = np.array_split(np.argsort(lengths, kind="stable"), bins)
    return [Bin(part.tolist(), float(np.mean([lengths[row] for row in part]))) for part in parts]


def source_length(rivals: Sequence[Rival], bins: Sequence[Bin], texts: Mapping[Name, Sequence[str]],
                  references: Sequence[Sequence[str]], seconds: Mapping[Name, Sequence[Floats]], *,
                  tokenizer: str) -> Finding:
    """Quality and speed in each bin.

    Args:
        rivals: families of other orders.
        bins: of the test split.
        texts: hypotheses (N,) of all of them and of their counterparts.
        references: (R, N).
        seconds: of all of them, per bin, of its timed sentences.
        tokenizer: of BLEU.
    """
    bleu = make_bleu(tokenizer)

    def quality(name: Name, one: Bin) -> float:
        return float(bleu.corpus_score([texts[name][row] for row in one.rows],
                                       [[reference[row] for row in one.rows] for reference in references]).score)

    metric: dict[str, Any] = {"source_pieces": [one.length for one in bins],
                              "sentences": [len(one.rows) for one in bins],
                              "timed_sentences": [len(one) for one in next(iter(seconds.values()))]}
    for rival in rivals:
        costs = [np.stack(both, 1) for both in zip(seconds[rival.counterpart], seconds[rival.name], strict=True)]
        ratios = [speed_ratio(*one.T) for one in costs]
        metric[" ".join(rival.name)] = {
            "counterpart": " ".join(rival.counterpart), "bleu": [quality(rival.name, one) for one in bins],
            "counterpart_bleu": [quality(rival.counterpart, one) for one in bins],
            "speedup": [ratio for ratio, _, _ in ratios], "speedup_low": [low for _, low, _ in ratios],
            "speedup_high": [high for _, _, high in ratios],
            "longest_against_shortest": quotient(costs[-1], costs[0], paired=False).named("speedup")}
    return Finding(metric, _draw(metric, rivals))


def _draw(metric: Mapping[str, Any], rivals: Sequence[Rival]) -> Figure:
    figure, (quality, speed) = chart.new_picture(2)
    lengths = metric["source_pieces"]
    counterparts = dict[str, Sequence[float]]()
    for rival, colour in chart.first_coloured(rivals):
        found = metric[" ".join(rival.name)]
        counterparts[found["counterpart"]] = found["counterpart_bleu"]
        chart.curve(quality, lengths, found["bleu"], colour, label=" ".join(rival.name))
        chart.curve(speed, lengths, found["speedup"], colour,
                    intervals=list(zip(found["speedup_low"], found["speedup_high"], strict=True)))
    for (name, bleu), style in zip(counterparts.items(), cycle(("--", ":", "-.", (0, (1, 4)))), strict=False):
        chart.curve(quality, lengths, bleu, chart.THEME.muted, label=name, style=style)
    speed.axhline(1, color=chart.THEME.muted, linewidth=1)
    chart.name_axes(quality, "pieces of the source, mean of the bin", "BLEU", chart.of_all(rivals))
    chart.name_axes(speed, "pieces of the source, mean of the bin", "times as fast, same beam")
    chart.add_legend(figure, 3)
    return figure
