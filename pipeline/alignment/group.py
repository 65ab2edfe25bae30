"""The processes that align one corpus together: each does a share of the shards, and all have the same sums."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import PipelineError

Item = TypeVar("Item")

_BLOCK = 1 << 24
"""Numbers that are summed at once."""


class Group:
    """A process by itself."""

    rank, world = 0, 1

    def share(self, items: int) -> range:
        """The numbers of this process's items, of some."""
        return range(self.rank, items, self.world)

    def add(self, array: NDArray[np.signedinteger[Any]]) -> None:
        """Replace an array of integers by its sum over all processes."""

    def add_parts(self, array: NDArray[np.signedinteger[Any]], bounds: Sequence[int]) -> None:
        """Replace this process's part of an array of integers by its sum over all processes.

        `bounds`, (world + 1), are those of the parts. The other parts are no longer valid.
        """

    def gather_parts(self, array: NDArray[Any], bounds: Sequence[int]) -> None:
        """Replace the other processes' parts of an array by theirs."""

    def collect(self, share: list[Item], items: int) -> list[Item]:
        """Return the items of all processes in their order; `share` are those of this process's numbers."""
        return share


ALONE = Group()


class _Launched(Group):
    """One of the processes that a launcher has started, over `torch.distributed` (gloo)."""

    def __init__(self) -> None:
        import torch.distributed as distributed

        self._distributed = distributed
        if not distributed.is_initialized():
            distributed.init_process_group("gloo")
        self.rank, self.world = distributed.get_rank(), distributed.get_world_size()

    def add(self, array: NDArray[np.signedinteger[Any]]) -> None:
        self._each_block(array, self._distributed.all_reduce)

    def add_parts(self, array: NDArray[np.signedinteger[Any]], bounds: Sequence[int]) -> None:
        for rank, (first, last) in enumerate(pairwise(bounds)):
            self._each_block(array[first:last], partial(self._distributed.reduce, dst=rank))

    def gather_parts(self, array: NDArray[Any], bounds: Sequence[int]) -> None:
        for rank, (first, last) in enumerate(pairwise(bounds)):
            self._each_block(array[first:last], partial(self._distributed.broadcast, src=rank))

    @staticmethod
    def _each_block(array: NDArray[Any], work: Callable[[Any], Any]) -> None:
        """Do something to a one-dimensional array, in place and in blocks."""
        import torch

        for start in range(0, len(array), _BLOCK):
            work(torch.from_numpy(array[start:start + _BLOCK]))

    def collect(self, share: list[Item], items: int) -> list[Item]:
        shares: list[list[Item]] = [[] for _ in range(self.world)]
        self._distributed.all_gather_object(shares, share)
        return [shares[item % self.world][item // self.world] for item in range(items)]


def launched_group() -> Group:
    """The processes that torchrun or srun have started this one with; by itself without a launcher.

    SLURM's number of tasks of the job does not count: a batch script that does not call srun is one process.

    Raises:
        PipelineError: the launcher has not said where the processes meet.
    """
    if int(os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_STEP_NUM_TASKS") or 1) == 1:
        return Group()
    for name, slurm in (("WORLD_SIZE", "SLURM_STEP_NUM_TASKS"), ("RANK", "SLURM_PROCID")):
        if name not in os.environ:
            os.environ[name] = os.environ.get(slurm, "")
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise PipelineError(f"{missing[0]}: not set, but WORLD_SIZE or SLURM_STEP_NUM_TASKS is above 1; start the "
                            "processes with torchrun, or export MASTER_ADDR and MASTER_PORT (docs/scale.md)")
    return _Launched()
