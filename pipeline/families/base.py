"""The base of all families' modules: optimiser, schedule, random numbers of a step, validation loss."""

import copy
import importlib
from dataclasses import is_dataclass
from typing import Any, ClassVar

import numpy as np
import pytorch_lightning as lightning
import torch
from pytorch_lightning.plugins import Precision
from pytorch_lightning.utilities import GradClipAlgorithmType
from torch import Tensor
from torchmetrics import MeanMetric

from pipeline.corpus.datamodule import Batch
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.families.settings import OptimisationSettings, plain
from pipeline.model.checkpoint import unique_weights
from pipeline.model.settings import VocabularySettings
from pipeline.model.transformer import Transformer

_INSTANTIATOR = "pytorch_lightning.cli.instantiate_module"
"""What `load_from_checkpoint` calls with the saved hyper-parameters."""


class TranslationModule(lightning.LightningModule):
    """A network and its training; a family adds its `loss` and the `search` of its validation."""

    divisible: ClassVar[bool] = False
    """Whether the weights can be divided among devices: the loss calls the network as a whole."""
    watched: ClassVar[str] = "validation_bleu"
    """The logged figure by which patience and the choice of the best candidates judge a validation; more is better."""

    def __init__(self, network: Transformer, optimisation: OptimisationSettings, vocabulary: VocabularySettings,
                 seed: int) -> None:
        """Args:
            network: to train.
            optimisation: optimiser, schedule and label smoothing.
            vocabulary: of the data.
            seed: of dropout; the random numbers of a step depend only on it, the step and the device, so that a resumed
                run draws the same numbers as an uninterrupted one.
        """
        super().__init__()
        self.save_hyperparameters()
        # As plain YAML, which every logger takes, which is read without code, and which Lightning's CLI converts.
        self.save_hyperparameters({name: plain(value) if is_dataclass(value) else value
                                   for name, value in self.hparams.items()} | {"_instantiator": _INSTANTIATOR})
        self.network, self.optimisation, self.vocabulary, self.seed = network, optimisation, vocabulary, seed
        self.validation_loss = MeanMetric(nan_strategy=torch.inf)  # by default it ignores NaN
        self.limit = LengthLimit(longest=network.settings.max_length - 1)  # of predictions
        self._whole: tuple[Transformer, ...] = ()  # a tuple, because an attribute would be a part of the module

    def configure_model(self) -> None:
        """Divide the weights among devices, if that is Lightning's strategy (`pipeline.training.sharded`)."""
        if self.device_mesh is not None and not self._whole:
            from pipeline.families.divided import divide  # half a second that other trainings do not need

            self._whole = (copy.deepcopy(self.network).eval(),)
            divide(self.network, self.device_mesh["data_parallel"])

    def on_validation_start(self) -> None:
        if self._whole:
            whole = self._whole[0].to(self.device)
            whole.load_state_dict(self.whole_weights(), strict=False)  # of tied weights, the first
            whole.clear_caches()  # what is packed are the weights before

    def whole_weights(self) -> dict[str, Tensor]:
        """The network's weights by name; where they are divided, all devices must call this together."""
        if not self._whole:
            return unique_weights(self.network)
        from pipeline.families.divided import whole_weights

        return whole_weights(self.network)

    @property
    def searched(self) -> Transformer:
        """The network that validation searches: the one that is trained, or its copy if that one is divided."""
        return self._whole[0] if self._whole else self.network

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of the predictions for a batch, and their number."""
        raise NotImplementedError

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        """The quick translation that validation scores.

        Args:
            source: (B, S) ids, padded with PAD on the right.
            limit: the longest output.
        """
        raise NotImplementedError

    def at_this_step(self, first: float, last: float) -> float:
        """An amount that changes linearly from the first training step to the end; 0 in evaluation mode.

        The end is after `training.steps`, also where patience ends the training earlier.
        """
        if not self.training:
            return 0.0
        if first == last:
            return first
        return first + (last - first) * self.trainer.global_step / max(1, self.trainer.max_steps)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        slices = self.trainer.accumulate_grad_batches
        draw = self.trainer.global_step * slices + batch_idx % slices
        mixed = np.random.SeedSequence([self.seed, draw, self.global_rank]).generate_state(1, np.uint64)
        torch.manual_seed(int(mixed[0]))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, count = self.loss(batch, self.optimisation.label_smoothing)
        self.log("training_loss", loss.detach() / count, batch_size=len(batch.rows), prog_bar=True)
        return loss * batch.weight

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        if not len(batch.rows):
            self.validation_loss.update(0.0, 0.0)
            return
        loss, count = self.loss(batch, label_smoothing=0.0)
        self.validation_loss.update(loss / count, count)

    def predict_step(self, batch: Batch, batch_idx: int) -> list[list[int]]:
        """The words of the quick translation of every sentence of a batch, up to `self.limit`."""
        return self.search(batch.source, self.limit).best_words() if len(batch.rows) else []

    def on_validation_epoch_end(self) -> None:
        # A torchmetrics state: the mean over all devices is exact even if their shares differ.
        self.log("validation_loss", self.validation_loss, prog_bar=True)

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, gradient_clip_val: float | None = None,
                                    gradient_clip_algorithm: str | None = None) -> None:
        """Clip as Lightning does, also in bfloat16, where it takes gradients of a fused optimiser for scaled ones."""
        if self.trainer.precision != "bf16-mixed":
            super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)
            return
        by = GradClipAlgorithmType(gradient_clip_algorithm or GradClipAlgorithmType.NORM)
        Precision.clip_gradients(self.trainer.precision_plugin, optimizer, gradient_clip_val or 0.0, by)

    def configure_optimizers(self) -> Any:
        settings = self.optimisation
        # Norms and biases are not decayed: only matrices have a scale that other layers cannot cancel.
        parameters = [p for p in self.network.parameters() if p.requires_grad]
        # In half precision gradients are scaled, which a fused optimiser may undo itself, after they were clipped.
        fused = self.trainer.precision != "16-mixed"
        optimizer = torch.optim.AdamW(
            [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
             {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
            lr=settings.learning_rate, betas=settings.betas, eps=settings.epsilon, fused=fused)
        steps = self.trainer.max_steps
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: settings.factor(step, steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def family_module(kind: str) -> type[TranslationModule]:
    """The LightningModule of a kind of family: `MaskedModule` of `masked.py`, and so on."""
    module: type[TranslationModule] = getattr(importlib.import_module(f"pipeline.families.{kind}"),
                                              f"{kind.title().replace('_', '')}Module")
    return module
