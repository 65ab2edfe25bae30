"""The one clock: all decoders interleaved, on the same input, under the same conditions.

A decoder's time is everything from ids on the device to `Hypotheses`, its own length prediction included.
Padding and reading the counts stay outside. Nothing is derived from a length: words and decoder calls are the
decoder's own counts. Ours run in one process; what runs in another one brings its own clock (`peers.py`).
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.errors import PipelineError
from pipeline.vocabulary import PAD

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Clock = Callable[[], float]

BATCH = 32
"""Sentences of a batch, where several are timed together."""
REFERENCE_DECODERS = ("beam5", "greedy")
"""Decoders of the baseline family that every speed is compared with: its best, and its fastest."""


class Run(NamedTuple):
    """A batch, translated."""

    seconds: float
    tokens: float
    """Words that came out, end symbols not counted."""
    calls: float
    """Decoder calls, the mean over the sentences; NaN where they are not known."""


class Timed(Protocol):
    """A decoder with its model, wherever it runs."""

    @property
    def family(self) -> str: ...

    @property
    def decoder(self) -> str: ...

    def run(self, batch: Tensor, clock: Clock) -> Run:
        """Translate a batch (B, S) of source ids, padded with PAD behind."""


@dataclass(frozen=True)
class Contestant:
    """A decoder of ours with its model, ready to run."""

    family: str
    decoder: str
    translate: Callable[[Tensor], Hypotheses]
    """Takes (B, S) source ids, padded with PAD behind."""

    def run(self, batch: Tensor, clock: Clock) -> Run:
        _synchronise(batch.device)
        start = clock()
        found = self.translate(batch)
        _synchronise(batch.device)
        seconds = clock() - start
        return Run(seconds, found.lengths[:, 0].sum().item(), found.calls.double().mean().item())


@dataclass(frozen=True)
class Timings:
    """C contestants, R repetitions, N batches of one batch size."""

    names: tuple[tuple[str, str], ...]
    """(family, decoder) of each contestant."""
    seconds: Floats
    """(C, R, N)."""
    tokens: Floats
    """(C, N) words that came out, end symbols not counted."""
    calls: Floats
    """(C, N) decoder calls, the mean over the sentences of the batch; NaN where they are not known."""

    @property
    def medians(self) -> Floats:
        """(C, N) seconds of each batch: the median over the repetitions."""
        return np.median(self.seconds, axis=1)


def measure(contestants: Sequence[Timed], sentences: Sequence[Tensor], *, repetitions: int, warmup: int,
            device: torch.device, batch_sizes: Sequence[int] = (1, BATCH),
            clock: Clock = time.perf_counter) -> dict[int, Timings]:
    """Time every contestant on every sentence, alone and in batches.

    Args:
        sentences: (1, S) source ids each. Batches of one keep this order.
        repetitions: passes over all sentences; odd numbers have a median that was really measured.
        warmup: batches that every contestant translates before its first timed one, for each batch size.

    Returns:
        Timings for each batch size.

    Raises:
        PipelineError: nothing to measure.
    """
    if not (contestants and sentences and repetitions > 0):
        raise PipelineError(f"speed: nothing to measure with {len(contestants)} decoders, {len(sentences)} "
                            f"sentences and {repetitions} repetitions; give at least one of each")
    timings = {}
    for size in batch_sizes:
        batches = [batch.to(device) for batch in make_batches(sentences, size)]
        timings[size] = _measure_batches(contestants, batches, repetitions, warmup, clock)
    return timings


def make_batches(sentences: Sequence[Tensor], size: int) -> list[Tensor]:
    """Pad sentences (1, S) into batches (size, S) of similar length; batches of one keep the given order.

    The longest come first, so that warm-up meets the largest memory.
    """
    if size == 1:
        return list(sentences)
    ordered = sorted((sentence[0] for sentence in sentences), key=len, reverse=True)
    return [torch.nn.utils.rnn.pad_sequence(ordered[start:start + size], batch_first=True, padding_value=PAD)
            for start in range(0, len(ordered), size)]


def turns(contestants: int) -> list[list[int]]:
    """Orders of play in which everyone goes first equally often and follows everyone else equally often.

    A plain rotation would keep each contestant behind the same neighbour, with the caches as that one left
    them. This is Williams' design (1949): a zigzag and its shifts, for odd numbers also mirrored.

    >>> turns(4)
    [[0, 3, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 2, 0, 1]]
    """
    C = contestants
    zigzag = [place // 2 if place % 2 == 0 else C - (place + 1) // 2 for place in range(C)]
    starts = [zigzag] if C % 2 == 0 else [zigzag, zigzag[::-1]]
    return [[(place + shift) % C for place in start] for start in starts for shift in range(C)]


@torch.inference_mode()
def _measure_batches(contestants: Sequence[Timed], batches: Sequence[Tensor], repetitions: int,
                     warmup: int, clock: Clock) -> Timings:
    for batch in batches[:warmup]:
        for contestant in contestants:
            contestant.run(batch, clock)
    orders = turns(len(contestants))
    seconds = np.zeros((len(contestants), repetitions, len(batches)))
    tokens, calls = np.zeros_like(seconds[:, 0]), np.zeros_like(seconds[:, 0])
    for repetition in range(repetitions):
        with _without_garbage_collection():
            for at, batch in enumerate(batches):
                # Another order in every repetition, so that no batch knows a single one.
                for who in orders[(at + repetition) % len(orders)]:
                    seconds[who, repetition, at], tokens[who, at], calls[who, at] = contestants[who].run(batch, clock)
    return Timings(tuple((one.family, one.decoder) for one in contestants), seconds, tokens, calls)


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    # A collection would fall on whoever happens to allocate the object that triggers it.
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def speed_ratio(baseline: Floats, other: Floats, *, samples: int = 1000,
                seed: int = 1) -> tuple[float, float, float]:
    """How many times faster `other` is, with the 95 % interval of a paired bootstrap over the sentences.

    It is the ratio of total times, so that a sentence counts by how long it takes, as it does for a user. The
    interval says what another test set would change; the noise of the machine is in the repetitions.

    Args:
        baseline, other: (N,) seconds of the same sentences.

    Returns:
        (ratio, low, high).

    >>> speed_ratio(np.array([4.0, 2.0]), np.array([2.0, 1.0]))
    (2.0, 2.0, 2.0)
    """
    drawn = np.random.default_rng(seed).integers(len(baseline), size=(samples, len(baseline)))
    low, high = np.quantile(baseline[drawn].sum(1) / other[drawn].sum(1), (0.025, 0.975))
    return float(baseline.sum() / other.sum()), float(low), float(high)


def speed_report(timings: Mapping[int, Timings], every: Bools, long: Bools, *, long_rule: str, baseline: str,
                 counterparts: Mapping[str, str], machine: Mapping[str, Any],
                 made: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `reports/speed.json`: milliseconds, and ratios as [ratio, low, high].

    What is said of long sentences is null where there are none.

    Args:
        timings: by batch size; size 1 must be among them.
        every: (N,) the sentences that stand for the whole test set, in the order given to `measure`.
        long: (N,) the sentences as long as those of the papers.
        long_rule: what makes a sentence long, in words.
        baseline: the family that speeds are compared with.
        counterparts: of each decoder, the baseline's that searches as widely; decoders without one are absent.
        machine: device, threads and versions, copied into the report.
        made: when and by which commit, likewise.

    Raises:
        PipelineError: the baseline was not measured under the reference decoders.
    """
    names = timings[1].names
    for decoder in REFERENCE_DECODERS:
        if (baseline, decoder) not in names:
            raise PipelineError(f"speed: {decoder!r} of family {baseline!r} was not measured, but others are "
                                "compared with it; add it to that family's decoders in params.yaml")
    return {"sentences": int(every.sum()), "long_sentences": int(long.sum()), "long_rule": long_rule,
            "repetitions": timings[1].seconds.shape[1], "baseline": baseline, "machine": dict(machine),
            "made": dict(made),
            "contestants": [_entry(timings, at, every, long, baseline, counterparts) for at in range(len(names))]}


def _entry(timings: Mapping[int, Timings], at: int, every: Bools, long: Bools, baseline: str,
           counterparts: Mapping[str, str]) -> dict[str, Any]:
    single = timings[1]
    times = dict(zip(single.names, single.medians, strict=True))
    (family, decoder), mine, calls = single.names[at], single.medians[at], single.calls[at]
    entry: dict[str, Any] = {
        "family": family, "decoder": decoder,
        "ms_per_sentence": 1000 * float(mine[every].mean()),
        "ms_per_sentence_long": 1000 * float(mine[long].mean()) if long.any() else None,
        "calls": _known(calls[every].mean()),
        "calls_long": _known(calls[long].mean()) if long.any() else None,
    }
    for size, timing in timings.items():
        key = "tokens_per_second" if size == 1 else f"tokens_per_second_batch{size}"
        entry[key] = float(timing.tokens[at].sum() / timing.medians[at].sum())
    for reference in REFERENCE_DECODERS:
        theirs = times[baseline, reference]
        entry[f"speedup_vs_{reference}"] = _long_ratio(theirs, mine, long)
        entry[f"speedup_vs_{reference}_all"] = list(speed_ratio(theirs[every], mine[every]))
    if family != baseline and decoder in counterparts:
        entry["counterpart"] = counterparts[decoder]
        entry["ratio_vs_ar_same_decoder"] = _long_ratio(times[baseline, counterparts[decoder]], mine, long)
    return entry


def _known(number: np.floating[Any]) -> float | None:
    return None if np.isnan(number) else float(number)


def _long_ratio(baseline: Floats, other: Floats, long: Bools) -> list[float] | None:
    return list(speed_ratio(baseline[long], other[long])) if long.any() else None
