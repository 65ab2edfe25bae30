"""How does the gain depend on the size of the model and of its vocabulary? (Table 2 and section 5.2 of the paper.)

A run trains models of one size, so random weights are timed here: the shape of `double_token` at half, once and twice
its width, and with a vocabulary four times as large. Weights do not change the time of a search of a given length. The
length of an output is that of its source, times what references have per piece of their sources.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.orders import LEFT_TO_RIGHT, OrderContext
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.evaluation.speed import Contestant, measure, speed_ratio
from pipeline.model.settings import OrderSettings

FAMILY, BEAM, PAIR_BEAM = "double_token", "beam10", "pair_beam10"
WIDTHS, VOCABULARIES = (0.5, 1, 2), (1, 4)
"""Factors of the run's own. A width that the heads do not divide is left out."""
_SENTENCES = 16


def ask(context: OrderContext) -> Finding:
    """Of some sentences of the test split, evenly spread over the lengths of their sources."""
    run, params = context.run, context.run.params
    if FAMILY not in params.systems:
        return not_measured(f"{FAMILY} is not among the systems")
    shape, vocabulary = params.family(FAMILY).network, run.tokenizer.target_size
    pairs = run.pairs("test")
    sources = [source for source, _ in pairs]
    ratio = sum(len(target) for _, target in pairs) / sum(len(source) + 1 for source in sources)
    limit = LengthLimit(ratio=ratio, extra=0, longest=shape.max_length - 1)
    orders = {params.baseline: (LEFT_TO_RIGHT, BEAM), FAMILY: (OrderSettings(FAMILY), PAIR_BEAM)}

    def timed(width: int, pieces: int) -> dict[str, float]:
        network = replace(shape, width=width, feed_forward=shape.feed_forward * width // shape.width)
        contestants = []
        for family, (order, name) in orders.items():
            search = make_decoder(name, params.decoder(name), limit)
            model = random_model(order, pieces, network, run.device)
            contestants.append(Contestant(family, name, partial(search, model)))
        return times_as_fast(contestants, run.spread_sources(sources, _SENTENCES, shape.max_length)[1],
                             params.speed.repetitions, params.speed.warmup, run.device)

    widths = [int(shape.width * factor) for factor in WIDTHS if shape.width * factor % (2 * shape.heads) == 0]
    return sizes({width: timed(width, vocabulary) for width in widths},
                 {vocabulary * factor: timed(shape.width, vocabulary * factor) for factor in VOCABULARIES},
                 sentences=min(_SENTENCES, len(sources)), pieces_per_source_piece=ratio, baseline=params.baseline)


def times_as_fast(contestants: Sequence[Contestant], sentences: Sequence[Tensor], repetitions: int, warmup: int,
                  device: torch.device) -> dict[str, float]:
    """How many times as fast as the first of two contestants the second one is, with its interval."""
    timings = measure(contestants, sentences, repetitions=repetitions, warmup=warmup, device=device, batch_sizes=(1,))
    ratio, low, high = speed_ratio(*timings[1].medians)
    return {"speedup": ratio, "speedup_low": low, "speedup_high": high}


def sizes(by_width: Mapping[int, Mapping[str, float]], by_vocabulary: Mapping[int, Mapping[str, float]],
          **about: Any) -> Finding:
    """The ratios of all sizes.

    Args:
        by_width, by_vocabulary: see `times_as_fast`.
        about: what is the same for all, `baseline` at least.
    """
    metric = {**about, "threads": torch.get_num_threads(),
              **{title: {str(size): dict(found) for size, found in one.items()}
                 for title, one in (("by_width", by_width), ("by_vocabulary", by_vocabulary))}}
    return Finding(metric, _draw(by_width, by_vocabulary, about["baseline"]))


def _draw(by_width: Mapping[int, Mapping[str, float]], by_vocabulary: Mapping[int, Mapping[str, float]],
          baseline: str) -> Figure:
    figure, panels = chart.new_picture(2)
    for axes, found, title in zip(panels, (by_width, by_vocabulary),
                                  ("width of the model", "pieces of the vocabulary"), strict=True):
        chart.curve(axes, list(found), [one["speedup"] for one in found.values()], chart.COLOURS[0],
                    intervals=[(one["speedup_low"], one["speedup_high"]) for one in found.values()])
        axes.axhline(1, color=chart.THEME.muted, linewidth=1)
        chart.powers_of_two(axes, list(found))
        chart.name_axes(axes, title, "")
    panels[0].set_ylabel(f"{FAMILY} {PAIR_BEAM}: times as fast as {baseline} {BEAM}", color=chart.THEME.ink, fontsize=9)
    return figure
