"""How do batch and beam change the gain of several words per step? (Figure 2 of the paper.)

Families of other orders are timed against the baseline at the same batch and beam size, in one pass of the one clock,
on sentences of all lengths. Of those that differ only in what they learnt from, the first one stands for the others.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.orders import OrderContext
from pipeline.evaluation.bootstrap import speed_ratio
from pipeline.evaluation.reference import REFERENCE_DECODERS
from pipeline.evaluation.speed import Contestant, measure

SENTENCES, BEAMS = {1: 16, 8: 128, 32: 256}, (1, 4, 8)
"""Sentences by the size of their batches, of which there are 16, 16 and 8: fewer make no interval."""
_BEAM, _GREEDY = REFERENCE_DECODERS


def ask(context: OrderContext) -> Finding:
    """Of some sentences of the test split, evenly spread over the lengths of their sources."""
    if not context.rivals:
        return context.not_measured()
    run, params = context.run, context.run.params
    networks = {family: run.network(family) for family in context.different()}
    longest = min(network.settings.max_length for network in networks.values())
    sources = run.sources()
    sentences = {size: run.spread_sources(sources, count, longest)[1] for size, count in SENTENCES.items()}
    contestants = []
    for (family, network), beams in product(networks.items(), BEAMS):
        name, block = (_GREEDY, params.decoder(_GREEDY)) if beams == 1 else (
            f"beam{beams}", {**params.decoder(_BEAM), "beams": beams})
        contestants.append(Contestant(family, name, partial(make_decoder(name, block, run.limit(network)), network)))
    return batch_and_beam(context.baseline, contestants, sentences, repetitions=params.speed.repetitions,
                          warmup=params.speed.warmup, device=run.device)


def batch_and_beam(baseline: str, contestants: Sequence[Contestant], sentences: Mapping[int, Sequence[Tensor]], *,
                   repetitions: int, warmup: int, device: torch.device) -> Finding:
    """Time every decoder of every family at every batch size.

    Args:
        baseline: the family that the others are compared with, decoder by decoder.
        contestants: each family under the same decoders, in the order of `BEAMS`.
        sentences: (1, S) ids each, by the size of the batches that they are timed in.
        repetitions, warmup: see `speed.measure`.
        device: of the models.
    """
    timings = measure(contestants, sentences, repetitions=repetitions, warmup=warmup, device=device)
    seconds = {(*name, size): medians for size, one in timings.items()
               for name, medians in zip(one.names, one.medians, strict=True)}
    decoders = list(dict.fromkeys(one.decoder for one in contestants))
    metric: dict[str, Any] = {"baseline": baseline, "repetitions": repetitions, "device": device.type,
                              "threads": torch.get_num_threads(),
                              "batches": {str(size): len(seconds[baseline, decoders[0], size]) for size in sentences}}
    for family in dict.fromkeys(one.family for one in contestants if one.family != baseline):
        metric[family] = {}
        for decoder, size in product(decoders, sentences):
            metric[family].setdefault(decoder, {})[str(size)] = speed_ratio(
                seconds[baseline, decoder, size], seconds[family, decoder, size]).named("speedup")
    return Finding(metric, _draw(metric, decoders))


def _draw(metric: Mapping[str, Any], decoders: Sequence[str]) -> Figure:
    sizes = [int(size) for size in metric["batches"]]
    families = [family for family, found in metric.items() if isinstance(found, dict) and decoders[0] in found]
    figure, panels = chart.new_picture(len(decoders))
    for axes, decoder, beams in zip(panels, decoders, BEAMS, strict=True):
        for family, colour in chart.first_coloured(families):
            rows = metric[family][decoder]
            chart.curve(axes, sizes, [rows[str(size)]["speedup"] for size in sizes], colour,
                        label=family if axes is panels[0] else "",
                        intervals=[(rows[str(size)]["speedup_low"], rows[str(size)]["speedup_high"])
                                   for size in sizes])
        axes.axhline(1, color=chart.THEME.muted, linewidth=1)
        chart.powers_of_two(axes, sizes)
        chart.name_axes(axes, "sentences at once", "", f"{beams} beam{'s' if beams > 1 else ''}")
    lows, highs = zip(*(axes.get_ylim() for axes in panels), strict=True)
    for axes in panels:
        axes.set_ylim(min(lows), max(highs))
    name = "; ".join(filter(None, (f"times as fast as {metric['baseline']}", chart.of_all(families))))
    panels[0].set_ylabel(name, color=chart.THEME.ink, fontsize=10)
    chart.add_legend(figure, 4)
    return figure
