"""Where does the time of a lattice go, and how does it grow with the target? (Figure 4 of the paper.)

The search of the table itself is timed, on the one clock, one sentence at a time; its model is wrapped in a stopwatch
that notes how long each part takes, synchronised at both ends (the paper: "asynchronous execution disabled"). What is
left of the whole is Viterbi, with the masks before and the read-out behind it.

The length of a target is the predicted one, L: it is known for every test sentence without a translation, and it
decides, with the window D, how large a lattice is.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.protocol import LatticeModel
from pipeline.decoding.settings import Decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, Point
from pipeline.evaluation.clock import spread
from pipeline.evaluation.speed import Clock, Contestant, measure

MEASURED = ("encoder", "look_up", "scorer")
PARTS = (*MEASURED, "viterbi")
_LABELS = ("encoder", "look-up of candidates and length", "scorer", "Viterbi")
T = TypeVar("T")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Stopwatch:
    """A lattice model that notes how long its parts take; `seconds` adds up until it is set back."""

    kind = "lattice"

    def __init__(self, model: LatticeModel, device: torch.device, clock: Clock = time.perf_counter) -> None:
        self._model, self._device, self._clock = model, device, clock
        self.seconds = dict.fromkeys(MEASURED, 0.0)

    def length(self, source: Tensor) -> Tensor:
        return self._timed("look_up", lambda: self._model.length(source))

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        return self._timed("look_up", lambda: self._model.candidates(source, positions, k))

    def encode(self, source: Tensor) -> Any:
        return self._timed("encoder", lambda: self._model.encode(source))

    def edges(self, memory: Any, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self._timed("scorer", lambda: self._model.edges(memory, candidates))

    def _timed(self, part: str, work: Callable[[], T]) -> T:
        self._synchronise()
        start = self._clock()
        result = work()
        self._synchronise()
        self.seconds[part] += self._clock() - start
        return result

    def _synchronise(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def breakdown(name: str, decoder: Decoder, model: LatticeModel, sources: Sequence[Tensor], *, count: int,
              bin_words: int, repetitions: int, warmup: int, device: torch.device) -> Finding:
    """Time the parts of a search by target length.

    Args:
        name: of the search.
        decoder: the search.
        model: a count model with a scorer.
        sources: (1, S) ids of all test sentences, on the device.
        count: how many of them to time; see `choose`.
        bin_words: target lengths that share a bin.
        repetitions, warmup: see `speed.measure`.
        device: that the model is on.
    """
    lengths = np.array([int(model.length(source)) for source in sources], np.int64)
    bins = (lengths - 1) // bin_words
    chosen = choose(lengths, bins, count)
    seconds = time_parts(model, decoder, [sources[row] for row in chosen], repetitions, warmup, device)
    every = np.bincount(bins)
    means = 1000 * mean_by_bin(seconds, bins[chosen], len(every))
    timed = np.bincount(bins[chosen], minlength=len(every))
    metric: dict[str, Any] = {"decoder": name, "device": device.type, "threads": torch.get_num_threads(),
                              "sentences": len(chosen), "repetitions": repetitions, "bins": {}}
    points: list[Point] = []
    for place in np.flatnonzero(every):
        low, high = int(place) * bin_words + 1, (int(place) + 1) * bin_words
        parts = dict(zip(PARTS, means[place].tolist(), strict=True))
        metric["bins"][f"{low}-{high}"] = {
            "sentences": int(timed[place]), "test_sentences": int(every[place]),
            **{f"{part}_milliseconds": value for part, value in parts.items()}}
        points.append({"target_length": (low + high) / 2, "test_sentences": int(every[place]), **parts})
    return Finding(metric, points, _draw(name, means, lengths, bin_words))


def choose(lengths: Ints, bins: Ints, count: int) -> list[int]:
    """About `count` sentences: the same number from every bin, all from one that has fewer, and at least one from each.

    Those of a bin are evenly spaced over its lengths. The last bin comes first, so that warm-up meets long sentences.

    >>> choose(np.array([1, 2, 3, 9]), np.array([0, 0, 0, 2]), 3)
    [3, 0, 2]
    """
    filled, sizes = np.unique(bins, return_counts=True)
    share = max((one for one in range(1, count + 1) if np.minimum(sizes, one).sum() <= count), default=1)
    return [row for one in filled[::-1] for row in spread(lengths.astype(np.int32), np.flatnonzero(bins == one), share)]


def time_parts(model: LatticeModel, decoder: Decoder, sentences: Sequence[Tensor], repetitions: int, warmup: int,
               device: torch.device, clock: Clock = time.perf_counter) -> Floats:
    """Seconds of each of the `PARTS` of every sentence, (N, 4): medians over the repetitions."""
    watch, log = Stopwatch(model, device, clock), []

    def translate(source: Tensor) -> Hypotheses:
        watch.seconds = dict.fromkeys(MEASURED, 0.0)
        found = decoder(watch, source)
        log.append(list(watch.seconds.values()))
        return found

    timings = measure([Contestant("lattice", "parts", translate)], sentences, repetitions=repetitions, warmup=warmup,
                      device=device, batch_sizes=(1,), clock=clock)[1]
    rounds = repetitions * len(sentences)  # behind the warm-up
    parts = np.array(log[-rounds:]).reshape(repetitions, len(sentences), len(MEASURED))
    rest = timings.seconds[0] - parts.sum(2)
    return np.median(np.concatenate([parts, rest[:, :, None]], 2), axis=0)


def mean_by_bin(values: Floats, bins: Ints, count: int) -> Floats:
    """(count, columns) means of the rows of each bin; NaN where a bin has none.

    >>> mean_by_bin(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 2]), 3).tolist()
    [[2.0], [nan], [5.0]]
    """
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, bins, values)
    rows = np.bincount(bins, minlength=count)[:, None]
    return np.divide(sums, rows, out=np.full_like(sums, np.nan), where=rows > 0)


def _draw(name: str, means: Floats, lengths: Ints, bin_words: int) -> Figure:
    figure, (axes, above) = chart.new_picture(above=0.22)
    filled = np.flatnonzero(~np.isnan(means[:, 0]))
    centres = filled * bin_words + (bin_words + 1) / 2
    for values, label, colour in zip(means[filled].T, _LABELS, chart.COLOURS, strict=False):
        chart.curve(axes, centres.tolist(), values.tolist(), colour, label=label)
    above.bar(*np.unique(lengths, return_counts=True), width=1.0, color=chart.THEME.muted)
    above.tick_params(labelbottom=False)
    chart.logarithmic(axes)
    chart.name_axes(above, "", "test\nsentences", f"{name}, one sentence at a time")
    chart.name_axes(axes, f"predicted target length in words of the vocabulary (bins of {bin_words})", "ms a sentence")
    chart.add_legend(figure, len(PARTS))
    return figure
