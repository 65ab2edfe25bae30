"""A training whose loss or weights are no longer finite ends, and nothing of them is saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import COMMAND, WEIGHTS, WORK, fit
from torch import Tensor

from pipeline.cli import main
from pipeline.corpus.datamodule import Batch
from pipeline.errors import PipelineError
from pipeline.families.ordered import OrderedModule
from pipeline.model.checkpoint import load_checkpoint, save_checkpoint, unique_weights
from pipeline.model.settings import VocabularySettings
from pipeline.training import finite


def fail(capsys: pytest.CaptureFixture[str]) -> str:
    """Train with an error of one line, which is returned."""
    assert main([*COMMAND]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and "lower optimisation.learning_rate" in error
    return error


def spoil_loss(patch: pytest.MonkeyPatch, method: str, step: int, value: float) -> list[list[int]]:
    """Let the loss of one step, or of the validation after it, be a number; the rows of its batches are returned."""
    original, rows = getattr(OrderedModule, method), list[list[int]]()

    def loss(self: OrderedModule, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        total, count = OrderedModule_loss(self, batch, label_smoothing)
        return total * value, count

    OrderedModule_loss = OrderedModule.loss

    def spoilt(self: OrderedModule, batch: Batch, batch_idx: int) -> Any:
        if self.trainer.global_step != step:
            return original(self, batch, batch_idx)
        rows.append(batch.rows.tolist())
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(OrderedModule, "loss", loss)
            return original(self, batch, batch_idx)

    patch.setattr(OrderedModule, method, spoilt)
    return rows


@pytest.mark.parametrize(("value", "at_once"), [(float("nan"), True), (float("inf"), True), (float("nan"), False)])
def test_a_loss_that_is_not_finite_ends_the_training(
        uninterrupted: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        value: float, at_once: bool) -> None:
    """At once, or before anything is saved where looking at every loss would be a wait."""
    before = WEIGHTS.read_bytes()
    with monkeypatch.context() as patch:
        rows = spoil_loss(patch, "training_step", 9, value)[:]
        if not at_once:
            patch.setattr(torch.device, "type", property(lambda self: "other"), raising=False)
        error = fail(capsys)
    assert error.startswith(f"error: step 10: the training loss is {value}, of rows ")
    assert "of data/bpe/train.pairs; " in error
    assert WEIGHTS.read_bytes() == before
    assert (WORK / "resume.ckpt").exists()
    assert fit(workspace) == (uninterrupted / WEIGHTS).read_bytes()  # what was saved is good
    assert "going on from" in capsys.readouterr().out


