"""Processes that align together: who they are, and what they exchange."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline.alignment.group import ALONE, launched_group
from pipeline.errors import PipelineError

ROOT = Path(__file__).parents[2]
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


TOGETHER = """
import json, sys
import numpy as np
import torch.distributed
from pipeline.alignment import group

rank, store = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
group._BLOCK = 2
launched = group.launched_group()
added, parts, gathered = np.arange(5) + 10 * rank, np.arange(5) + 10 * rank, np.full(5, rank)
launched.add(added)
launched.add_parts(parts, [0, 2, 5])
launched.gather_parts(gathered, [0, 2, 5])
collected = launched.collect([[0, 2], [1]][rank], 3)
print(json.dumps([list(launched.share(3)), added.tolist(), parts.tolist(), gathered.tolist(), collected]))
torch.distributed.destroy_process_group()
"""


def test_what_launched_processes_exchange(tmp_path: Path) -> None:
    launched = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    with ExitStack() as running:
        processes = [running.enter_context(subprocess.Popen(
            [sys.executable, "-c", TOGETHER, rank, str(tmp_path / "store")], env={**launched, "RANK": rank},
            cwd=ROOT, stdout=subprocess.PIPE, text=True)) for rank in "01"]
        for process in processes:
            running.callback(process.kill)
        answers = [process.communicate(timeout=60)[0] for process in processes]
    for answer, share, part, expected in zip(answers, ([0, 2], [1]), (slice(2), slice(2, 5)), ([10, 12], [14, 16, 18]),
                                             strict=True):
        shared, added, parts, gathered, collected = json.loads(answer)
        assert (shared, added, parts[part]) == (share, [10, 12, 14, 16, 18], expected)
        assert (gathered, collected) == ([0, 0, 1, 1, 1], [0, 1, 2])
