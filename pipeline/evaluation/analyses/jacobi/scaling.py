"""Does parallel Jacobi decoding gain from more cores, where greedy search cannot? (Figure 3 of the paper.)

Every decoder takes its turns with every number of threads on the one clock, one long sentence at a time.

The steps of a narrow model on few rows are one compiled call on one core whatever the threads are, larger ones are
torch's, which uses all threads; those of a wide model are shared by the cores (`pipeline.engine`). The share of a
decoder's operations that are compiled is measured with every number of threads and reported with its speeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.cores import usable_cores
from pipeline.engine.door import open_engine, shares_products
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.jacobi.context import jacobi_contestants, speed_figures
from pipeline.evaluation.analyses.jacobi.flops import compiled_share
from pipeline.evaluation.bootstrap import quotient, speed_ratio
from pipeline.evaluation.speed import Clock, Contestant, Run, measure

CPU = torch.device("cpu")


def ask(run: FinishedRun) -> Finding:
    """Of the baseline under greedy search and its Jacobi decoders, on the CPU, over long sources of the test split."""
    found = jacobi_contestants(run, CPU)
    if isinstance(found, Finding):
        return found
    threads, before = thread_counts(usable_cores()), torch.get_num_threads()
    shares = dict[str, dict[int, float]]()
    try:
        for count in threads:  # with fewer, larger steps are compiled
            torch.set_num_threads(count)
            with torch.inference_mode():
                for name, decoder in found.decoders.items():
                    shares.setdefault(name, {})[count] = compiled_share(found.network, decoder, found.sentences)
    finally:
        torch.set_num_threads(before)
    return scaling(found.with_model(found.decoders), found.sentences, shares, threads=threads,
                   repetitions=run.params.speed.repetitions, warmup=run.params.speed.warmup, rule=found.rule,
                   shares_products=shares_products(open_engine(found.network)))


def thread_counts(most: int) -> list[int]:
    """Powers of two, and all cores.

    >>> thread_counts(1), thread_counts(2), thread_counts(6)
    ([1], [1, 2], [1, 2, 4, 6])
    """
    return [*(1 << power for power in range((most - 1).bit_length())), most]


@dataclass(frozen=True)
class OnThreads:
    """A decoder that takes its turn with a number of threads."""

    contestant: Contestant
    threads: int

    @property
    def family(self) -> str:
        return self.contestant.family

    @property
    def decoder(self) -> str:
        return self.contestant.decoder

    def run(self, batch: Tensor, clock: Clock) -> Run:
        """See `Contestant.run`; setting the threads is not on the clock."""
        torch.set_num_threads(self.threads)
        return self.contestant.run(batch, clock)


def scaling(contestants: Sequence[Contestant], sentences: Sequence[Tensor],
            shares: Mapping[str, Mapping[int, float]], *, threads: Sequence[int], repetitions: int, warmup: int,
            rule: str, shares_products: bool) -> Finding:
    """Time decoders with several numbers of threads, which are as before afterwards.

    Args:
        contestants: on the CPU; the first is what the others are compared with.
        sentences: (1, S) ids each.
        shares: of every decoder's operations, those that compiled code does with each number of threads.
        threads: rising numbers of threads.
        repetitions, warmup: see `speed.measure`.
        rule: which sentences they are, in words.
        shares_products: whether the cores share the products of compiled steps.
    """
    before = torch.get_num_threads()
    try:
        medians = measure([OnThreads(one, count) for count in threads for one in contestants], {1: sentences},
                          repetitions=repetitions, warmup=warmup, device=CPU)[1].medians
    finally:
        torch.set_num_threads(before)
    seconds = dict(zip(threads, medians.reshape(len(threads), len(contestants), -1), strict=True))
    found: dict[str, dict[int, dict[str, float]]] = {}
    for at, one in enumerate(contestants):
        for count, times in seconds.items():
            gain, low, high = speed_ratio(seconds[threads[0]][at], times[at])
            found.setdefault(one.decoder, {})[count] = {
                **speed_figures(times[at], times[0]), "against_fewest_threads": gain,
                "against_fewest_threads_low": low, "against_fewest_threads_high": high}
    first, ends = contestants[0], [seconds[threads[at]] for at in (-1, 0)]
    metric: dict[str, Any] = {
        "baseline": f"{first.family} {first.decoder}", "sentences": len(sentences), "rule": rule,
        "repetitions": repetitions, "cores": usable_cores(), "threads": list(threads),
        "shares_products": shares_products,
        "decoders": {decoder: {"compiled_share": {str(count): share for count, share in shares[decoder].items()},
                               "by_threads": {str(count): one for count, one in by_threads.items()},
                               "most_against_fewest_threads": quotient(*(
                                   np.stack([times[0], times[at]], 1) for times in ends)).named("speedup_vs_greedy")}
                     for at, (decoder, by_threads) in enumerate(found.items())}}
    return Finding(metric, _draw(found, shares))


def _compiled(shares: Mapping[int, float]) -> str:
    """The share of a decoder's operations that is compiled, with each number of threads or with all of them.

    >>> _compiled({1: 1.0, 2: 1.0}), _compiled({1: 1.0, 2: 0.8})
    ('100 % compiled', '100, 80 % compiled')
    """
    return f"{', '.join(dict.fromkeys(f'{100 * share:.0f}' for share in shares.values()))} % compiled"


def _draw(found: Mapping[str, Mapping[int, Mapping[str, float]]], shares: Mapping[str, Mapping[int, float]]) -> Figure:
    figure, (against, gain) = chart.new_picture(2)
    for (decoder, by_threads), colour in chart.coloured(found.items()):
        threads, figures = list(by_threads), list(by_threads.values())
        for axes, ratio, ends, label in ((against, "speedup_vs_greedy", "speedup",
                                          f"{decoder}: {_compiled(shares[decoder])}"),
                                         (gain, "against_fewest_threads", "against_fewest_threads", "")):
            chart.curve(axes, threads, [one[ratio] for one in figures], colour, label=label,
                        intervals=[(one[f"{ends}_low"], one[f"{ends}_high"]) for one in figures])
    for axes in (against, gain):
        chart.powers_of_two(axes, threads)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.08)
    baseline, fewest = next(iter(found)), min(threads)
    chart.name_axes(against, "threads", f"times as fast as {baseline}", "both with as many threads")
    chart.name_axes(gain, "threads", f"times as fast as with {fewest} thread{'s' if fewest > 1 else ''}", "")
    chart.add_legend(figure, 3)
    return figure
