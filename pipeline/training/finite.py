"""Stops a training when its loss or its weights are no longer finite, before such weights are saved."""

from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor

from pipeline.corpus.datamodule import Batch, PairsDataModule
from pipeline.errors import PipelineError
from pipeline.families.base import TranslationModule
from pipeline.model.checkpoint import not_finite

_STEPS = 50
"""Steps between checks if a check must wait for another device or for other processes."""
_ROWS = 20
"""The most rows of a batch that an error lists."""
_REMEDY = ("lower optimisation.learning_rate or training.clip, or choose training.precision 32-true; the weights saved "
           "before are finite")


class StopIfNotFinite(Callback):
    """Raises a PipelineError at the first loss or weight that is not finite, in every process of the run.

    The loss is checked after each step, or after up to `_STEPS` steps if a check must wait. Losses and weights are
    checked before every validation, before every checkpoint that Lightning writes, and at the end, so only finite
    weights are ever saved.
    """

    def __init__(self) -> None:
        self._step = 0
        self._losses: list[tuple[int, Tensor, Tensor]] = []  # step, rows and loss of each slice not yet checked

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        self._step = trainer.global_step + 1

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any,
                           batch: Batch, batch_idx: int) -> None:
        self._losses.append((self._step, batch.rows, outputs["loss"]))
        at_once = trainer.world_size == 1 and outputs["loss"].device.type == "cpu"
        if at_once or len(self._losses) == _STEPS:
            self._check_losses(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._check(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        loss = trainer.callback_metrics.get("validation_loss")  # the same for all processes
        if loss is not None and not loss.isfinite():
            raise PipelineError(f"step {trainer.global_step}: the validation loss is {float(loss)}; {_REMEDY}")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._check(trainer, pl_module)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self._check(trainer, pl_module)

    def _check(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TranslationModule)
        self._check_losses(trainer)
        found = _gather(trainer, not_finite(pl_module.whole_weights()))
        if found:
            raise PipelineError(f"step {trainer.global_step}: the weights {found[0]} are not finite; {_REMEDY}")

    def _check_losses(self, trainer: Trainer) -> None:
        losses, self._losses = self._losses, []
        bad = None
        if losses:
            finite = torch.stack([loss for _, _, loss in losses]).isfinite()
            if not finite.all():
                step, rows, loss = losses[int(finite.int().argmin())]
                bad = step, float(loss), rows.tolist()
        found = _gather(trainer, bad)
        if not found:
            return
        step, value, rows = min(found, key=lambda one: one[0])
        data: PairsDataModule = trainer.datamodule  # type: ignore[attr-defined]  # Lightning sets it
        files = ", ".join(map(str, data.training_paths()))
        listed = ", ".join(map(str, rows[:_ROWS])) + f" and {len(rows) - _ROWS} more" * (len(rows) > _ROWS)
        raise PipelineError(f"step {step}: the training loss is {value}, of rows {listed} of {files}; {_REMEDY}")


def _gather(trainer: Trainer, mine: Any) -> list[Any]:
    """The values of all processes that are not None; all processes must call this at the same time."""
    if trainer.world_size == 1:
        return [] if mine is None else [mine]
    if trainer.strategy.reduce_boolean_decision(mine is None, all=True):
        return []
    parts = [mine] * trainer.world_size
    torch.distributed.all_gather_object(parts, mine)
    return [part for part in parts if part is not None]
