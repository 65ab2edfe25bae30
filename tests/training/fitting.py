"""What the tests of `fit` share: the real command in a folder, what it leaves, and ways to break it off."""

from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytorch_lightning as lightning
import torch
from torch import Tensor

from pipeline.cli import main
from pipeline.corpus.datamodule import Batch
from pipeline.families.base import TranslationModule

Trained = TypeVar("Trained", bound=TranslationModule)

WEIGHTS = Path("checkpoints/teacher/weights.safetensors")
CONFIG = Path("checkpoints/teacher/config.json")
WORK = Path("checkpoints/.work/teacher")
CURVE = Path("reports/training/teacher")
COMMAND = ("fit", "--family", "teacher", "--in-place", "--trainer.accelerator", "cpu",
           "--trainer.log_every_n_steps", "3")
SHARDED = ("--trainer.strategy", "pipeline.training.sharded.ShardedStrategy",
           "--trainer.strategy.process_group_backend", "gloo")
"""The strategy `sharded` by its class, which has options."""
STUDENTS: dict[str, Any] = {
    "families": {
        "masked": {"kind": "masked", "decoders": ["mask_predict"]},
        "lattice": {"kind": "lattice", "network": {"decoder_layers": 2}, "decoders": ["lattice8"]},
        "drafter": {"kind": "drafter", "network": {"encoder_layers": 0}, "decoders": ["gad"],
                    "drafting": {"verifier": "teacher", "block": 4}},
        "heads": {"kind": "heads", "drafting": {"verifier": "teacher", "block": 3}, "decoders": ["blockwise"]}},
    "students": dict.fromkeys(["masked", "drafter", "heads"], "teacher"), "lattices": {"lattice": "teacher"},
    "systems": ["teacher", "interleaved", "masked", "lattice", "drafter", "heads"],
    "decoders": {"mask_predict": {"algorithm": "mask_predict"}, "lattice8": {"algorithm": "lattice", "candidates": 8},
                 "gad": {"algorithm": "gad"}, "blockwise": {"algorithm": "blockwise"}},
    "analyses": {"decoder": "lattice8"}}
"""Parameters with a family of every kind but the teacher's; where a lattice's counts are, the fixture `lattice_family`
has written them."""


def train(module: Trained, steps: int, batch: Batch) -> Trained:
    """Train on one batch and return the module in evaluation mode."""
    trainer = lightning.Trainer(max_steps=steps, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0)
    trainer.fit(module, train_dataloaders=torch.utils.data.DataLoader([batch] * steps, batch_size=None))
    return module.eval()


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
    original = TranslationModule.training_step

    def training_step(self: TranslationModule, batch: Batch, batch_idx: int) -> Tensor:
        if self.trainer.global_step == step:
            raise error
        return original(self, batch, batch_idx)

    monkeypatch.setattr(TranslationModule, "training_step", training_step)
