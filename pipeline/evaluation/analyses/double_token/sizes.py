"""How does the gain depend on the size of the model and of its vocabulary? (Table 2 and section 5.2 of the paper.)

A run trains models of one size, so random weights are timed here: the shape of `double_token` at half, once and twice
its width, and with a vocabulary four times as large. Weights do not change the time of a search of a given length, but
where they lie in memory does: each round has weights of its own, and intervals are over rounds and sentences. One
thread searches, because the engine lets cores share the products of wide models only. The length of an output is that
of its source, times what references have per piece of their sources.

The sentences have the run's own pieces with every vocabulary, so that only the projection to the vocabulary differs. In
the paper a larger one also makes sentences shorter, which is the reason that it supposes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.orders import LEFT_TO_RIGHT, OrderContext
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.evaluation.bootstrap import Floats, crossed_ratio
from pipeline.evaluation.speed import Contestant, measure
from pipeline.model.settings import OrderSettings

FAMILY, BEAM, PAIR_BEAM = "double_token", "beam10", "pair_beam10"
WIDTHS, VOCABULARIES = (0.5, 1, 2), (1, 4)
"""Factors of the run's own. A width that is odd or that the heads do not divide is left out."""
_SENTENCES, ROUNDS = 16, 8


def ask(context: OrderContext) -> Finding:
    """Of some sentences of the test split, evenly spread over the lengths of their sources."""
    run, params = context.run, context.run.params
    if FAMILY not in params.systems:
        return not_measured(f"{FAMILY} is not among the systems")
    if params.family(params.baseline).order != LEFT_TO_RIGHT:
        return not_measured(f"the baseline, {params.baseline}, does not generate from left to right, word by word")
    if absent := [name for name in (BEAM, PAIR_BEAM) if name not in params.decoders]:
        return not_measured(f"{' and '.join(absent)} not among the decoders")
    shape, vocabulary = params.family(FAMILY).network, run.tokenizer.target_size
    pairs = run.pairs("test")
    sources = [source for source, _ in pairs]
    ratio = sum(len(target) for _, target in pairs) / sum(len(source) + 1 for source in sources)
    limit = LengthLimit(ratio=ratio, extra=0, longest=shape.max_length - 1)
    orders = {params.baseline: (LEFT_TO_RIGHT, BEAM), FAMILY: (OrderSettings(FAMILY), PAIR_BEAM)}

    def timed(width: int, pieces: int, seed: int) -> Floats:
        network = replace(shape, width=width, feed_forward=shape.feed_forward * width // shape.width)
        contestants = []
        for family, (order, name) in orders.items():
            search = make_decoder(name, params.decoder(name), limit)
            model = random_model(order, pieces, network, run.device, seed)
            contestants.append(Contestant(family, name, partial(search, model)))
        return seconds_of(contestants, run.spread_sources(sources, _SENTENCES, shape.max_length)[1],
                          params.speed.warmup, run.device)

    threads = torch.get_num_threads()

    widths = [int(width) for width in (shape.width * factor for factor in WIDTHS)
              if width % 2 == 0 and width % shape.heads == 0]
    every = list(dict.fromkeys([*((width, vocabulary) for width in widths),
                                *((shape.width, vocabulary * one) for one in VOCABULARIES)]))
    try:
        torch.set_num_threads(1)
        rounds = [[timed(*size, seed) for size in every] for seed in range(ROUNDS)]
    finally:
        torch.set_num_threads(threads)
    seconds = dict(zip(every, np.array(rounds).swapaxes(0, 1), strict=True))
    return sizes({width: seconds[width, vocabulary] for width in widths},
                 {vocabulary * one: seconds[shape.width, vocabulary * one] for one in VOCABULARIES},
                 sentences=min(_SENTENCES, len(sources)), rounds=ROUNDS, pieces_per_source_piece=ratio,
                 baseline=params.baseline)


def seconds_of(contestants: Sequence[Contestant], sentences: Sequence[Tensor], warmup: int,
               device: torch.device) -> Floats:
    """(C, N) seconds of each sentence under each contestant, one at a time."""
    return measure(contestants, {1: sentences}, repetitions=1, warmup=warmup, device=device)[1].medians


def sizes(by_width: Mapping[int, Floats], by_vocabulary: Mapping[int, Floats], **about: Any) -> Finding:
    """The ratios of all sizes, and how many times as large that of the largest size is as that of the smallest.

    Args:
        by_width, by_vocabulary: (R, 2, N) seconds of the baseline and of `FAMILY` in each round, per sentence.
        about: what is the same for all, `baseline` at least.
    """
    measured = {"by_width": by_width, "by_vocabulary": by_vocabulary}
    metric = {**about,
              **{title: {str(size): crossed_ratio([seconds]).named("speedup") for size, seconds in one.items()}
                 for title, one in measured.items()},
              "largest_against_smallest": {
                  title: crossed_ratio([one[max(one)], one[min(one)][:, ::-1]]).named("speedup")
                  for title, one in measured.items() if len(one) > 1}}
    return Finding(metric, _draw(metric))


def _draw(metric: Mapping[str, Any]) -> Figure:
    figure, panels = chart.new_picture(2)
    for axes, what, title in zip(panels, ("by_width", "by_vocabulary"),
                                 ("width of the model", "pieces of the vocabulary"), strict=True):
        found = {int(size): one for size, one in metric[what].items()}
        chart.curve(axes, list(found), [one["speedup"] for one in found.values()], chart.COLOURS[0],
                    intervals=[(one["speedup_low"], one["speedup_high"]) for one in found.values()])
        axes.axhline(1, color=chart.THEME.muted, linewidth=1)
        chart.powers_of_two(axes, list(found))
        chart.name_axes(axes, title, "")
    panels[0].set_ylabel(f"{FAMILY} {PAIR_BEAM}: times as fast as {metric['baseline']} {BEAM}",
                         color=chart.THEME.ink, fontsize=9)
    return figure
