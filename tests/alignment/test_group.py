"""Processes that align together: who they are, and what they exchange."""

from pathlib import Path

import numpy as np
import pytest
import torch.distributed

from pipeline.alignment.group import ALONE, launched_group
from pipeline.errors import PipelineError

_NAMES = ("WORLD_SIZE", "RANK", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _NAMES:
        monkeypatch.setenv(name, "")  # so that what is set meanwhile is removed
        monkeypatch.delenv(name)


def test_without_a_launcher_a_process_is_alone() -> None:
    group = launched_group()
    assert (group.rank, group.world, list(group.share(3))) == (0, 1, [0, 1, 2])
    assert ALONE.collect([5, 6], 2) == [5, 6]


@pytest.mark.parametrize("names", [("WORLD_SIZE", "RANK"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")])
def test_a_launcher_must_say_where_to_meet(names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in zip(names, "21", strict=True):
        monkeypatch.setenv(name, number)
    with pytest.raises(PipelineError, match="MASTER_ADDR: not set"):
        launched_group()


def test_launched_processes_add_and_collect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process, which has all that is exchanged; tests/alignment/test_fast_align.py has two."""
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        monkeypatch.setattr("pipeline.alignment.group._BLOCK", 2)
        group, counts = launched_group(), np.arange(5)
        group.add(counts)
        assert counts.tolist() == [0, 1, 2, 3, 4]
        assert group.collect([(1.5, 2.5), (0.5, 1.0)], 2) == [(1.5, 2.5), (0.5, 1.0)]
    finally:
        torch.distributed.destroy_process_group()
