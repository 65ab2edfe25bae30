"""What the tests of `fit` share: the real command in a folder, what it leaves, and ways to break it off."""

from pathlib import Path

import pytest
from torch import Tensor

from pipeline.cli import main
from pipeline.corpus.datamodule import Batch
from pipeline.families.ordered import OrderedModule

WEIGHTS = Path("checkpoints/teacher/weights.safetensors")
CONFIG = Path("checkpoints/teacher/config.json")
WORK = Path("checkpoints/.work/teacher")
CURVE = Path("reports/training/teacher")
COMMAND = ("fit", "--family", "teacher", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", "3")


def fit(folder: Path, *options: str, family: str = "teacher") -> bytes:
    """Train in a folder and return the bytes of the final weights."""
    assert main([*COMMAND[:2], family, *COMMAND[3:], *options]) == 0
    return (folder / "checkpoints" / family / "weights.safetensors").read_bytes()


def curve(folder: Path) -> dict[str, bytes]:
    """The files of the teacher's training curve."""
    found = {str(path.relative_to(folder)): path.read_bytes()
             for path in sorted((folder / CURVE).rglob("*")) if path.is_file()}
    assert len(found) == 5  # four curves and their last values
    return found


class Broken(Exception):
    pass


def break_at(monkeypatch: pytest.MonkeyPatch, step: int, error: type[BaseException] = Broken) -> None:
    """Let training fail in the middle of a step."""
    original = OrderedModule.training_step

    def training_step(self: OrderedModule, batch: Batch, batch_idx: int) -> Tensor:
        if self.trainer.global_step == step:
            raise error
        return original(self, batch, batch_idx)

    monkeypatch.setattr(OrderedModule, "training_step", training_step)
