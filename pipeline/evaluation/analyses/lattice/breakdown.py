"""Where does the time of a lattice go, and how does it grow with the target? (Figure 4 of the paper.)

The search is timed on the one clock, one sentence at a time, with a stopwatch around its model (the paper:
"asynchronous execution disabled"). The remaining time is that of Viterbi, the masks before it and the backtrace.

The length of a target is the predicted one, L: it is known for every test sentence without a translation, and with the
window D it determines how large a lattice is.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decoding.protocol import LatticeModel
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.lattice.context import LatticeContext
from pipeline.evaluation.analyses.parts import Stopwatch, Watched, WatchedSearch, time_parts
from pipeline.evaluation.clock import spread
from pipeline.evaluation.speed import Floats

MEASURED = ("encoder", "look_up", "scorer")
PARTS = (*MEASURED, "viterbi")
_LABELS = ("encoder", "look-up of candidates and length", "scorer", "Viterbi")
METHODS = {"length": "look_up", "candidates": "look_up", "encode": "encoder", "edges": "scorer"}
"""The part to which the time of each method of the model belongs."""
Ints = NDArray[np.int64]


def ask(context: LatticeContext) -> Finding:
    """Over some sentences of the test split."""
    if context.lattice is None:
        return context.not_measured()
    params, run, name = context.run.params, context.run, context.run.params.analyses.decoder
    return breakdown(name, make_decoder(name, params.decoder(name), run.limit(context.lattice)), context.lattice,
                     context.sources(context.lattice, 1), count=params.analyses.sentences,
                     bin_words=params.analyses.bin_words, repetitions=params.analyses.repetitions,
                     warmup=params.speed.warmup, device=run.device)


def breakdown(name: str, decoder: Decoder, model: LatticeModel, sources: Sequence[Tensor], *, count: int,
              bin_words: int, repetitions: int, warmup: int, device: torch.device) -> Finding:
    """Time the parts of a search by target length.

    Args:
        name: of the decoder.
        decoder: searches a lattice.
        model: a count model with a scorer.
        sources: (1, S) ids of all test sentences, on the device.
        count: how many of them to time; see `choose`.
        bin_words: target lengths that share a bin.
        repetitions, warmup: see `speed.measure`.
        device: of the model.
    """
    lengths = np.array([int(model.length(source)) for source in sources], np.int64)
    bins = (lengths - 1) // bin_words
    chosen = choose(lengths, bins, count)
    watch = Stopwatch(MEASURED, device)
    watched = Watched(model, watch, METHODS)
    seconds = time_parts([WatchedSearch(partial(decoder, watched), watch)], [sources[row] for row in chosen],
                         repetitions, warmup)[0]
    metric: dict[str, Any] = {"decoder": name, "device": device.type, "threads": torch.get_num_threads(),
                              "sentences": len(chosen), "repetitions": repetitions, "bins": {}}
    filled = np.unique(bins)
    means = np.stack([1000 * seconds[bins[chosen] == place].mean(0) for place in filled])
    for place, milliseconds in zip(filled.tolist(), means.tolist(), strict=True):
        metric["bins"][f"{place * bin_words + 1}-{(place + 1) * bin_words}"] = {
            "sentences": int((bins[chosen] == place).sum()), "test_sentences": int((bins == place).sum()),
            **{f"{part}_milliseconds": value for part, value in zip(PARTS, milliseconds, strict=True)}}
    centres = (filled * bin_words + (bin_words + 1) / 2).tolist()
    return Finding(metric, _draw(name, centres, means, lengths, bin_words))


def choose(lengths: Ints, bins: Ints, count: int) -> list[int]:
    """Choose about `count` sentences: as many from every bin, all of a smaller bin, and at least one of each.

    Those of a bin are evenly spaced over its lengths. The last bin comes first, so that warm-up meets long sentences.

    >>> choose(np.array([1, 2, 3, 9]), np.array([0, 0, 0, 2]), 3)
    [3, 0, 2]
    """
    filled, sizes = np.unique(bins, return_counts=True)
    share = max((one for one in range(1, count + 1) if np.minimum(sizes, one).sum() <= count), default=1)
    return [row for one in filled[::-1] for row in spread(lengths.astype(np.int32), np.flatnonzero(bins == one), share)]


def _draw(name: str, centres: Sequence[float], means: Floats, lengths: Ints, bin_words: int) -> Figure:
    figure, (axes, above) = chart.new_picture(above=0.22)
    for values, label, colour in zip(means.T, _LABELS, chart.COLOURS, strict=False):
        chart.curve(axes, centres, values.tolist(), colour, label=label)
    above.bar(*np.unique(lengths, return_counts=True), width=1.0, color=chart.THEME.muted)
    above.tick_params(labelbottom=False)
    chart.logarithmic(axes)
    chart.name_axes(above, "", "test\nsentences", f"{name}, one sentence at a time")
    chart.name_axes(axes, f"predicted target length in words of the vocabulary (bins of {bin_words})",
                    "ms per sentence")
    chart.add_legend(figure, len(PARTS))
    return figure
