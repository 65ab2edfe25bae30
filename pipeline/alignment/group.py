"""The processes that align one corpus together: each does a share of the shards, and all have the same sums."""

import os
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
        import torch

        flat = array.reshape(-1)
        for start in range(0, len(flat), _BLOCK):
            part = torch.from_numpy(np.array(flat[start:start + _BLOCK]))
            self._distributed.all_reduce(part)
            flat[start:start + _BLOCK] = part.numpy()

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
