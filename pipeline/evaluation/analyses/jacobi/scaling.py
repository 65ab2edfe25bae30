"""Does parallel Jacobi decoding gain from more cores, where greedy search cannot? (Figure 3 of the paper.)

Every number of threads has a measuring pass of its own on the one clock, one long sentence at a time; speeds are
against greedy search in the same pass. How much faster a decoder is than itself on one thread compares two passes, and
so two moments of the machine.

The steps of a small model, few rows at a time, are one compiled call on one core whatever the threads are
(`pipeline.engine`). Which share of a decoder's operations that is, is measured and said with its speeds.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.alignment.directions import cores
from pipeline.corpus.padding import pad_sources
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.lab import Lab
from pipeline.evaluation.clock import spread
from pipeline.evaluation.flops import compiled_share
from pipeline.evaluation.speed import REFERENCE_DECODERS, Contestant, Floats, measure, speed_ratio
from pipeline.model.transformer import Transformer
from pipeline.params import Params

ALGORITHM = "jacobi"
CPU = torch.device("cpu")
_, GREEDY = REFERENCE_DECODERS


class Speed(NamedTuple):
    """Of a decoder with some number of threads: ratios as (ratio, low, high), of a bootstrap over the sentences."""

    milliseconds: float
    """A sentence."""
    against_greedy: tuple[float, float, float]
    """In the same pass."""
    against_fewest: tuple[float, float, float]
    """Against itself with the fewest threads that were tried, in another pass."""

    def figures(self) -> dict[str, float]:
        (ratio, low, high), (gain, least, most) = self[1:]
        return {"milliseconds": self.milliseconds, "speedup_vs_greedy": ratio, "speedup_low": low,
                "speedup_high": high, "against_fewest_threads": gain, "against_fewest_threads_low": least,
                "against_fewest_threads_high": most}


def ask_scaling(lab: Lab) -> Finding:
    """Of the baseline under greedy search and its Jacobi decoders, on the CPU, over long sources of the test split."""
    params = lab.params
    names = jacobi_decoders(params)
    if not names:
        return not_measured(f"no decoder of family {params.baseline!r} is of algorithm {ALGORITHM}")
    network = lab.network(params.baseline)
    assert network is not None  # it is one of the systems
    network.to(CPU)
    sentences = long_sentences(lab, network)
    if not sentences:
        return not_measured(f"no test source has {params.speed.long_tokens} pieces (speed.long_tokens)")
    searches = {name: make_decoder(name, params.decoder(name), lab.limit(network)) for name in (GREEDY, *names)}
    contestants = [Contestant(params.baseline, name, lambda source, s=search: s(network, source))  # type: ignore[misc]
                   for name, search in searches.items()]
    with torch.inference_mode():
        shares = {name: compiled_share(network, search, sentences) for name, search in searches.items()}
    return scaling(contestants, sentences, shares, threads=thread_counts(cores()),
                   repetitions=params.speed.repetitions, warmup=params.speed.warmup,
                   rule=f"sources of at least {params.speed.long_tokens} pieces")


def jacobi_decoders(params: Params) -> list[str]:
    """Those of the baseline."""
    return [name for name in params.decoders_of(params.baseline) if params.decoders[name]["algorithm"] == ALGORITHM]


def long_sentences(lab: Lab, network: Transformer) -> list[Tensor]:
    """Long sources of the test split, (1, S) ids each, evenly spread over their lengths."""
    speed, sources = lab.params.speed, [source for source, _ in lab.pairs("test")]
    lengths = np.array([len(source) for source in sources], np.int32)
    rows = spread(lengths, np.flatnonzero(lengths >= speed.long_tokens), speed.long_sentences)
    return [pad_sources([sources[row]], network.settings.max_length) for row in rows]


def thread_counts(most: int) -> list[int]:
    """Powers of two, and all cores.

    >>> thread_counts(1), thread_counts(2), thread_counts(6)
    ([1], [1, 2], [1, 2, 4, 6])
    """
    return [*(1 << power for power in range((most - 1).bit_length())), most]


def scaling(contestants: Sequence[Contestant], sentences: Sequence[Tensor], shares: Mapping[str, float], *,
            threads: Sequence[int], repetitions: int, warmup: int, rule: str) -> Finding:
    """Time decoders with several numbers of threads, which are as before afterwards.

    Args:
        contestants: on the CPU; the first is what the others are compared with.
        sentences: (1, S) ids each.
        shares: of every decoder's operations, that compiled code does on one core.
        threads: numbers of threads.
        repetitions, warmup: see `speed.measure`.
        rule: which sentences they are, in words.

    Raises:
        PipelineError: nothing to measure, or a number of threads that is none.
    """
    if not threads or min(threads) < 1:
        raise PipelineError(f"scaling: threads {list(threads)} must be numbers of at least 1")
    seconds: dict[int, Floats] = {}
    for count in sorted(set(threads)):
        with _threads(count):
            seconds[count] = measure(contestants, sentences, repetitions=repetitions, warmup=warmup, device=CPU,
                                     batch_sizes=(1,))[1].medians
    fewest = min(seconds)
    found = {one.decoder: {count: Speed(1000 * float(times[at].mean()), speed_ratio(times[0], times[at]),
                                        speed_ratio(seconds[fewest][at], times[at]))
                           for count, times in seconds.items()} for at, one in enumerate(contestants)}
    first = contestants[0]
    metric: dict[str, Any] = {
        "baseline": f"{first.family} {first.decoder}", "sentences": len(sentences), "rule": rule,
        "repetitions": repetitions, "cores": cores(), "threads": list(seconds),
        "decoders": {decoder: {"compiled_share": shares[decoder],
                               "by_threads": {str(count): one.figures() for count, one in speeds.items()}}
                     for decoder, speeds in found.items()}}
    return Finding(metric, _draw(found, shares))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _draw(found: Mapping[str, Mapping[int, Speed]], shares: Mapping[str, float]) -> Figure:
    figure, (against, gain) = chart.new_picture(2)
    for (decoder, speeds), colour in zip(found.items(), chart.COLOURS * len(found), strict=False):
        threads = list(speeds)
        for axes, ratios in ((against, [one.against_greedy for one in speeds.values()]),
                             (gain, [one.against_fewest for one in speeds.values()])):
            chart.curve(axes, threads, [ratio for ratio, _, _ in ratios], colour,
                        label=f"{decoder}: {100 * shares[decoder]:.0f} % compiled" if axes is against else "",
                        intervals=[(low, high) for _, low, high in ratios])
    for axes in (against, gain):
        chart.powers_of_two(axes, threads)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.08)
    baseline, fewest = next(iter(found)), min(threads)
    chart.name_axes(against, "threads", f"times as fast as {baseline}", "both with as many threads")
    chart.name_axes(gain, "threads", f"times as fast as with {fewest} thread{'s' if fewest > 1 else ''}",
                    "compiled code uses one core")
    chart.add_legend(figure, 3)
    return figure
