"""The one clock: all decoders interleaved, on the same input, under the same conditions.

A decoder's time is everything from ids on the device to `Hypotheses`, its own length prediction included. Padding and
reading the counts are not in it. Nothing is derived from a length: tokens and decoder calls are the decoder's own
counts. This project's decoders run in one process; those of other libraries have a process and a clock each
(`peers.py`).
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.errors import PipelineError
from pipeline.evaluation.bootstrap import Floats, speed_ratio
from pipeline.evaluation.reference import REFERENCE_DECODERS
from pipeline.vocabulary import PAD

Bools = NDArray[np.bool_]
Clock = Callable[[], float]

BATCH = 32
"""Sentences per batch, where several are timed together."""


class Run(NamedTuple):
    """The costs of translating a batch once."""

    seconds: float
    tokens: float
    """Output tokens, without end symbols."""
    calls: float
    """Decoder calls, the mean over the sentences; NaN where they are not known."""


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has done what it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Timed(Protocol):
    """A decoder with its model, wherever it runs."""

    @property
    def family(self) -> str: ...

    @property
    def decoder(self) -> str: ...

    def run(self, batch: Tensor, clock: Clock) -> Run:
        """Translate a batch (B, S) of source ids, padded with PAD on the right."""


@dataclass(frozen=True)
class Contestant:
    """A decoder of this project with its model."""

    family: str
    decoder: str
    translate: Callable[[Tensor], Hypotheses]
    """Takes (B, S) source ids, padded with PAD on the right."""

    def run(self, batch: Tensor, clock: Clock) -> Run:
        synchronise(batch.device)
        start = clock()
        found = self.translate(batch)
        synchronise(batch.device)
        seconds = clock() - start
        return Run(seconds, found.lengths[:, 0].sum().item(), found.calls.double().mean().item())


@dataclass(frozen=True)
class Timings:
    """Of C contestants in R repetitions of N batches of one batch size."""

    names: tuple[tuple[str, str], ...]
    """(family, decoder) of each contestant."""
    seconds: Floats
    """(C, R, N)."""
    tokens: Floats
    """(C, N) output tokens, without end symbols."""
    calls: Floats
    """(C, N) decoder calls, the mean over the sentences of the batch; NaN where they are not known."""
    sentences: int
    """In all batches."""

    @cached_property
    def medians(self) -> Floats:
        """(C, N) seconds of each batch: the median over the repetitions."""
        return np.median(self.seconds, axis=1)


def measure(contestants: Sequence[Timed], samples: Mapping[int, Sequence[Tensor]], *, repetitions: int, warmup: int,
            device: torch.device, clock: Clock = time.perf_counter) -> dict[int, Timings]:
    """Time every contestant on every sentence, singly and in batches.

    Args:
        samples: sentences, (1, S) source ids each, by the size of the batches that they are timed in. Batches of one
            keep this order.
        repetitions: passes over all sentences; the median of an odd number is one of the measured times.
        warmup: batches that every contestant translates before its first timed one, for each batch size.

    Returns:
        Timings for each batch size.

    Raises:
        PipelineError: nothing to measure.
    """
    fewest = min(map(len, samples.values()))
    if not (contestants and fewest and repetitions > 0):
        raise PipelineError(f"speed: nothing to measure with {len(contestants)} decoders, {fewest} sentences and "
                            f"{repetitions} repetitions; give at least one of each")
    return {size: _measure_batches(contestants, [batch.to(device) for batch in make_batches(sentences, size)],
                                   repetitions, warmup, clock) for size, sentences in samples.items()}


def make_batches(sentences: Sequence[Tensor], size: int) -> list[Tensor]:
    """Pad sentences (1, S) into batches (size, S) of similar length; batches of one keep the given order.

    The longest come first, so that the warm-up needs the most memory.
    """
    if size == 1:
        return list(sentences)
    ordered = sorted((sentence[0] for sentence in sentences), key=len, reverse=True)
    return [torch.nn.utils.rnn.pad_sequence(ordered[start:start + size], batch_first=True, padding_value=PAD)
            for start in range(0, len(ordered), size)]


def turns(contestants: int) -> list[list[int]]:
    """Orders in which each contestant is first equally often and comes after each other one equally often.

    In a plain rotation each contestant would always come after the same other one, with the caches as that one left
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
    for batch, contestant in product(batches[:warmup], contestants):
        contestant.run(batch, clock)
    orders = turns(len(contestants))
    # Few batches take orders that are spread over all; the next repetition of a batch has another one.
    stride = max(len(orders) // (repetitions * len(batches)), 1)
    shift = len(batches) * stride
    shift += shift % len(orders) == 0
    seconds = np.zeros((len(contestants), repetitions, len(batches)))
    tokens, calls = np.zeros_like(seconds[:, 0]), np.zeros_like(seconds[:, 0])
    for repetition in range(repetitions):
        gc.collect()
        gc.disable()  # the time of a collection would be added to the contestant that happens to trigger it
        try:
            for at, batch in enumerate(batches):
                for who in orders[(at * stride + repetition * shift) % len(orders)]:
                    seconds[who, repetition, at], tokens[who, at], calls[who, at] = contestants[who].run(batch, clock)
        finally:
            gc.enable()
    return Timings(tuple((one.family, one.decoder) for one in contestants), seconds, tokens, calls,
                   sum(map(len, batches)))


def costs_of(timings: Mapping[int, Timings], at: int, rows: Bools | slice = slice(None)) -> dict[str, float | None]:
    """Milliseconds and calls per sentence, and output tokens per second, of one contestant.

    Args:
        timings: by batch size; size 1 must be among them.
        at: the contestant.
        rows: the single sentences whose figures these are; those of batches, whose names have their size, are of all.

    Returns:
        Figures by their name in reports; None where there are no such sentences, or the calls are not known.
    """
    single = timings[1]
    seconds, calls, tokens = (figures[at][rows] for figures in (single.medians, single.calls, single.tokens))
    found = {"ms_per_sentence": 1000 * float(seconds.mean()) if len(seconds) else None,
             "calls": None if not len(calls) or np.isnan(calls).any() else float(calls.mean()),
             "tokens_per_second": float(tokens.sum() / seconds.sum()) if len(seconds) else None}
    for size, timing in timings.items():
        if size > 1:
            total = float(timing.medians[at].sum())
            found |= {f"ms_per_sentence_batch{size}": 1000 * total / timing.sentences,
                      f"tokens_per_second_batch{size}": float(timing.tokens[at].sum()) / total}
    return found


def speed_report(timings: Mapping[int, Timings], every: Bools, long: Bools, *, long_rule: str, baseline: str,
                 counterparts: Mapping[str, str], machine: Mapping[str, Any],
                 made: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `reports/speed.json`: milliseconds, and ratios as [ratio, low, high].

    The figures of long sentences are null where there are none. The seconds of each of them are listed, rounded to
    tenths of microseconds, and its output tokens: comparisons of two decoders are paired.

    Args:
        timings: by batch size; size 1 must be among them.
        every: (N,) the sentences that represent the test set, in the order given to `measure`.
        long: (N,) the sentences as long as those of the papers.
        long_rule: what makes a sentence long, in words.
        baseline: the family that speeds are compared with, timed under the reference decoders.
        counterparts: for each decoder, the baseline's with as many beams, itself where it is one of the baseline's;
            decoders without one are absent.
        machine: device, threads and versions, copied into the report.
        made: date and commit of the measurement, copied into the report.
    """
    single = timings[1]
    times = dict(zip(single.names, single.medians, strict=True))
    entries = []
    for at, ((family, decoder), mine) in enumerate(times.items()):
        on_long = costs_of(timings, at, long)
        entry: dict[str, Any] = {"family": family, "decoder": decoder, **costs_of(timings, at, every),
                                 "ms_per_sentence_long": on_long["ms_per_sentence"], "calls_long": on_long["calls"],
                                 "seconds_long": np.round(mine[long], 7).tolist(),
                                 "tokens_long": single.tokens[at][long].astype(int).tolist()}
        for reference in REFERENCE_DECODERS:
            theirs = times[baseline, reference]
            entry[f"speedup_vs_{reference}"] = _long_ratio(theirs, mine, long)
            entry[f"speedup_vs_{reference}_all"] = list(speed_ratio(theirs[every], mine[every]))
            entry |= {f"speedup_vs_{reference}_batch{size}": list(speed_ratio(
                one.medians[one.names.index((baseline, reference))], one.medians[at]))
                for size, one in timings.items() if size > 1}
        if decoder in counterparts and (family, decoder) != (baseline, counterparts[decoder]):
            entry["counterpart"] = counterparts[decoder]
            entry["ratio_vs_ar_same_decoder"] = _long_ratio(times[baseline, counterparts[decoder]], mine, long)
        entries.append(entry)
    batched = {f"sentences_batch{size}": one.sentences for size, one in timings.items() if size > 1}
    return {"sentences": int(every.sum()), "long_sentences": int(long.sum()), "long_rule": long_rule, **batched,
            "repetitions": single.seconds.shape[1], "baseline": baseline, "machine": machine, "made": made,
            "contestants": entries}


def _long_ratio(baseline: Floats, other: Floats, long: Bools) -> list[float] | None:
    return list(speed_ratio(baseline[long], other[long])) if long.any() else None
