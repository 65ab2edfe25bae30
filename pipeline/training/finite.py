"""A training ends where its loss or its weights are no longer finite, before anything of them is saved."""

from typing import Any

import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor

from pipeline.corpus.datamodule import Batch, PairsDataModule
from pipeline.errors import PipelineError
from pipeline.families.base import TranslationModule
from pipeline.model.checkpoint import not_finite, unique_weights

_STEPS = 50
"""Between looks at losses that another device computes or other processes share, each of which is a wait."""
_ROWS = 20
"""Of a batch that an error lists."""
_REMEDY = ("lower optimisation.learning_rate or training.clip, or choose training.precision 32-true; what was saved "
           "before is finite")


class StopIfNotFinite(Callback):
    """Raises a PipelineError at the first loss or weight that is not finite, in every process of the run.

    The loss of a step is looked at when the step is done, or with those of up to `_STEPS` steps where a look is a wait.
    Losses and weights are looked at before every validation, before every checkpoint that Lightning writes, and at the
    end. So nothing is ever saved of weights that are not finite.
    """

    def __init__(self) -> None:
        self._step = 0
        self._losses: list[tuple[int, Tensor, Tensor]] = []  # step, rows and loss of each slice not looked at

    def on_train_batch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch,
                             batch_idx: int) -> None:
        self._step = trainer.global_step + 1

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any,
                           batch: Batch, batch_idx: int) -> None:
        self._losses.append((self._step, batch.rows, outputs["loss"]))
        at_once = trainer.world_size == 1 and outputs["loss"].device.type == "cpu"
        if at_once or len(self._losses) == _STEPS:
            self._check_losses(trainer)

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._check(trainer, pl_module)

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        loss = trainer.callback_metrics.get("validation_loss")  # the same for all processes
        if loss is not None and not loss.isfinite():
            raise PipelineError(f"step {trainer.global_step}: the validation loss is {float(loss)}; {_REMEDY}")

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._check(trainer, pl_module)

    def on_save_checkpoint(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule,
                           checkpoint: dict[str, Any]) -> None:
        self._check(trainer, pl_module)

    def _check(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, TranslationModule)
        self._check_losses(trainer)
        found = _gather(trainer, not_finite(unique_weights(pl_module.network)))
        if found:
            raise PipelineError(f"step {trainer.global_step}: the weights {found[0]} are not finite; {_REMEDY}")

    def _check_losses(self, trainer: lightning.Trainer) -> None:
        looked_at, self._losses = self._losses, []
        bad = None
        if looked_at:
            finite = torch.stack([loss for _, _, loss in looked_at]).isfinite()
            if not finite.all():
                step, rows, loss = looked_at[int(finite.int().argmin())]
                bad = step, float(loss), rows.tolist()
        found = _gather(trainer, bad)
        if not found:
            return
        step, value, rows = min(found, key=lambda one: one[0])
        data: PairsDataModule = trainer.datamodule  # type: ignore[attr-defined]  # Lightning sets it
        files = ", ".join(map(str, data.training_paths()))
        listed = ", ".join(map(str, rows[:_ROWS])) + f" and {len(rows) - _ROWS} more" * (len(rows) > _ROWS)
        raise PipelineError(f"step {step}: the training loss is {value}, of rows {listed} of {files}; {_REMEDY}")


def _gather(trainer: lightning.Trainer, mine: Any) -> list[Any]:
    """What the processes have found that is not None, which all of them must ask for at the same time."""
    if trainer.world_size == 1:
        return [] if mine is None else [mine]
    if trainer.strategy.reduce_boolean_decision(mine is None, all=True):
        return []
    parts = [mine] * trainer.world_size
    torch.distributed.all_gather_object(parts, mine)
    return [part for part in parts if part is not None]
