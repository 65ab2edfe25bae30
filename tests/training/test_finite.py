"""A training whose loss or weights are no longer finite ends, and nothing of them is saved."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fitting import COMMAND, WEIGHTS, WORK, fit
from torch import Tensor

from pipeline.cli import main
from pipeline.corpus.datamodule import Batch
from pipeline.errors import PipelineError
from pipeline.families.ordered import OrderedModule
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.settings import VocabularySettings
from pipeline.model.transformer import Transformer


def spoil_loss(patch: pytest.MonkeyPatch, step: int, value: float, training: bool) -> list[list[int]]:
    """Give a number to the loss of a step, or of the validation after it; the rows of the spoilt batches are listed."""
    original, rows = OrderedModule.loss, list[list[int]]()

    def loss(self: OrderedModule, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        total, count = original(self, batch, label_smoothing)
        if self.trainer.global_step == step and self.training == training:
            rows.append(batch.rows.tolist())
            total = total * value
        return total, count

    patch.setattr(OrderedModule, "loss", loss)
    return rows


def spoil_weights(patch: pytest.MonkeyPatch, step: int) -> None:
    """Let a weight become infinite after a step, too late for its loss."""
    def on_train_batch_end(self: OrderedModule, outputs: object, batch: Batch, batch_idx: int) -> None:
        if self.trainer.global_step == step:
            with torch.no_grad():
                self.network.decoder_norm.weight[3] = torch.inf

    patch.setattr(OrderedModule, "on_train_batch_end", on_train_batch_end)


@pytest.mark.parametrize(("kind", "value"), [("training", float("nan")), ("training", float("inf")),
                                             ("validation", float("nan")), ("weights", float("inf"))])
def test_what_is_not_finite_ends_the_training(uninterrupted: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                              capsys: pytest.CaptureFixture[str], kind: str, value: float) -> None:
    before = WEIGHTS.read_bytes()
    with monkeypatch.context() as patch:
        rows: list[list[int]] = []
        if kind == "weights":
            spoil_weights(patch, 12)
        else:
            rows = spoil_loss(patch, 9 if kind == "training" else 12, value, kind == "training")
        assert main([*COMMAND]) == 2
    error = capsys.readouterr().err
    batch = ", ".join(map(str, rows[0][:20])) if rows else ""
    expected = {"training": f"step 10: the training loss is {value}, of rows {batch}",
                "validation": "step 12: the validation loss is inf",
                "weights": "step 12: the weights decoder_norm.weight are not finite"}
    assert error.startswith(f"error: {expected[kind]}") and error.count("\n") == 1
    assert "lower optimisation.learning_rate" in error
    assert ("of data/bpe/train.pairs" in error) == (kind == "training")
    assert WEIGHTS.read_bytes() == before
    assert not (WORK / "candidates/step-00000012.safetensors").exists()
    assert fit(workspace) == (uninterrupted / WEIGHTS).read_bytes()  # what was saved is good
    assert f"continuing from {WORK / 'resume.ckpt'}" in capsys.readouterr().out


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_checkpoint_holds_what_is_not_finite(tmp_path: Path, tiny: Callable[..., Transformer], value: float) -> None:
    """Also none of an average."""
    network = tiny()
    weights = unique_weights(network)
    weights["projection.weight"][3, 2] = value
    with pytest.raises(PipelineError, match=r"teacher: not saved, because projection\.weight is not finite"):
        save_checkpoint(tmp_path / "teacher", network, VocabularySettings(20, 20, ""), weights, {})
    assert not list(tmp_path.iterdir())
