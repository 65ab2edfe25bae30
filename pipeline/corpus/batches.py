"""Plans the rows of each batch as a pure function of lengths, budget, seed and step, for any number of devices.

A training batch is the batch of one optimiser step. It is planned once for all devices and then divided among them, so
eight devices use the batches, and compute the gradients, of one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from pipeline.errors import PipelineError

Rows = NDArray[np.int64]


def cut_by_budget(lengths: NDArray[np.int64], budget: int, least: int = 1) -> list[tuple[int, int]]:
    """Divide ascending lengths into runs whose padded size, rows times longest, is within a budget.

    Args:
        lengths: (N,) ascending.
        budget: tokens per run, padding included.
        least: rows that a run has even if they exceed the budget (all runs but the last).

    Returns:
        (start, end) of each run, covering 0..N in order.

    >>> cut_by_budget(np.array([2, 2, 3, 4, 9]), 8)
    [(0, 2), (2, 4), (4, 5)]
    """
    runs, start = [], 0
    while start < len(lengths):
        # (end - start) * lengths[end - 1] increases with end: bisect for the last end within the budget.
        low, high = start + 1, min(len(lengths), start + max(1, budget // max(1, int(lengths[start]))))
        while low < high:
            middle = (low + high + 1) // 2
            if (middle - start) * lengths[middle - 1] <= budget:
                low = middle
            else:
                high = middle - 1
        end = min(len(lengths), max(low, start + least))
        runs.append((start, end))
        start = end
    return runs


def by_tokens(lengths: NDArray[np.integer[Any]], budget: int) -> list[slice]:
    """Divide descending lengths into batches whose padded size, rows times longest, is within a budget.

    A length that exceeds the budget has a batch of its own.

    >>> by_tokens(np.array([9, 4, 3, 2, 2]), 8)
    [slice(0, 1, None), slice(1, 3, None), slice(3, 5, None)]
    """
    runs = cut_by_budget(np.asarray(lengths[::-1], np.int64), budget)
    return [slice(len(lengths) - last, len(lengths) - first) for first, last in reversed(runs)]


@dataclass(frozen=True)
class Slice:
    """The rows of one batch that one device processes at once."""

    rows: Rows
    weight: float
    """Factor of the summed token losses of this slice, by which Lightning's averages over devices and over accumulated
    slices are the mean over all target tokens of the batch; with BPE-dropout, as many as there are without it."""
    epoch: int = 0
    """How often all rows have been used before."""


class TrainingBatches(Sampler[Slice]):
    """The slices of one device from a given step to the last, across epochs.

    Rows are sorted by length, with ties in an order drawn anew every epoch, divided by the budget, and the batches are
    shuffled. The division depends only on the lengths, so any step can be found without replaying those before it.
    """

    def __init__(self, target_lengths: NDArray[np.int64], source_lengths: NDArray[np.int64], *, budget: int,
                 seed: int, steps: int, slices: int = 1, rank: int = 0, world: int = 1, start: int = 0) -> None:
        """Args:
            target_lengths, source_lengths: (N,) tokens of every row, end symbol included.
            budget: target tokens per batch, padding included.
            seed: of the shuffles.
            steps: optimiser steps of the whole run.
            slices: slices that each device accumulates before a step.
            rank, world: this device and how many there are.
            start: optimiser steps already done.
        """
        self._lengths = target_lengths
        self._sources = source_lengths
        self._seed, self._start, self._steps = seed, start, steps
        self._slices, self._rank, self._world = slices, rank, world
        order = np.lexsort((source_lengths, target_lengths))
        self._runs = cut_by_budget(target_lengths[order], budget, least=slices * world)
        if len(target_lengths) < slices * world:
            raise PipelineError(f"{len(target_lengths)} training pairs cannot be divided among {world} devices with "
                                f"{slices} accumulated batches each; use fewer")
        if len(self._runs) > 1 and self._runs[-1][1] - self._runs[-1][0] < slices * world:
            self._runs[-2:] = [(self._runs[-2][0], self._runs[-1][1])]

    def __len__(self) -> int:
        """Slices of the complete run: Lightning counts those before the start as done."""
        return self._steps * self._slices

    def __iter__(self) -> Iterator[Slice]:
        epoch, order = -1, self._lengths
        for step in range(self._start, self._steps):
            if step // len(self._runs) != epoch:
                epoch = step // len(self._runs)
                generator = np.random.default_rng([self._seed, epoch])
                noise = generator.random(len(self._lengths))
                rows = np.lexsort((noise, self._sources, self._lengths))
                order = generator.permutation(len(self._runs))
            start, end = self._runs[order[step % len(self._runs)]]
            batch = rows[start:end]
            parts = self._slices * self._world
            weight = parts / float(self._lengths[batch].sum())
            for index in range(self._slices):
                yield Slice(batch[index * self._world + self._rank::parts], weight, epoch)


class EvaluationBatches(Sampler[Slice]):
    """Every row exactly once over all devices, in batches that do not depend on the number of devices.

    All devices have equally many batches, because they validate in step; the last one of some may be empty.
    """

    def __init__(self, source_lengths: NDArray[np.integer[Any]], *, budget: int, rank: int = 0, world: int = 1) -> None:
        """Args:
            source_lengths: (N,) tokens of every row; rows of similar length share a batch.
            budget: source tokens per batch, padding included, or one row that has more.
            rank, world: this device and how many there are.
        """
        order = np.argsort(-source_lengths, kind="stable")  # longest first: too little memory shows at once
        batches = [order[run] for run in by_tokens(source_lengths[order], budget)]
        self._mine = [*batches[rank::world], order[:0]][:-(-len(batches) // world)]

    def __len__(self) -> int:
        return len(self._mine)

    def __iter__(self) -> Iterator[Slice]:
        return (Slice(rows, 1.0) for rows in self._mine)
