"""Callbacks of a training: threads, validation BLEU, candidates for the average, resume points and progress."""

import os
import time
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import EarlyStopping, WeightAveraging

from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import Batch
from pipeline.decoding.limits import LengthLimit
from pipeline.families.base import TranslationModule
from pipeline.files import atomic_path
from pipeline.training.candidates import Candidate, Candidates
from pipeline.training.metrics import AcceptedPerCall, CorpusBleu
from pipeline.training.resume import CURVE, PREVIOUS, RESUME, read_curve


class Threads(Callback):
    """Sets the number of CPU threads of a training, overriding the environment and Lightning."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        torch.set_num_threads(self._threads)


class ValidationBleu(Callback):
    """Translates the validation sentences by the family's quick search and logs their `validation_bleu`.

    For a search that drafts and verifies, whose BLEU does not depend on the drafts, it also logs
    `validation_accepted`, the accepted tokens per call of the verifier.
    """

    def __init__(self, tokenizer: Tokenizer, references: list[str], limit: LengthLimit, bleu_tokenizer: str) -> None:
        """Args:
            tokenizer: of the data.
            references: of the validation split, of which the trainer may use a part.
            limit: the longest output.
            bleu_tokenizer: the evaluation's.
        """
        self._tokenizer, self._references, self._limit = tokenizer, references, limit
        self._bleu, self._accepted = CorpusBleu(bleu_tokenizer), AcceptedPerCall()

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for metric in (self._bleu, self._accepted):
            metric.to(pl_module.device).reset()

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any,
                                batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        assert isinstance(pl_module, TranslationModule)
        found = pl_module.search(batch.source, self._limit) if len(batch.rows) else None
        texts = [] if found is None else self._tokenizer.decode_targets(found.best_words())
        self._bleu.update(texts, [self._references[row] for row in batch.rows.tolist()])
        self._accepted.update(found)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # All ranks compute, which adds up their sums; the logged values are single precision like any other.
        for name, metric in (("validation_accepted", self._accepted), ("validation_bleu", self._bleu)):
            value = metric.compute().float()
            if not value.isnan():
                pl_module.log(name, value, prog_bar=True, rank_zero_only=True)
                # Also for the callbacks of the other ranks, which must decide the same.
                trainer.callback_metrics[name] = value


class Patience(EarlyStopping):
    """Ends a training whose validations have stopped getting better, after a fall of the learning rate to 0.

    All that it counts is in the resume point.
    """

    def __init__(self, watched: str, validations: int, gain: float, cooldown: int) -> None:
        """Args:
            watched: the figure that tells how good a validation is; see `TranslationModule.watched`.
            validations: without a better one, after which the rate begins to fall.
            gain: by which a better figure exceeds the best one.
            cooldown: steps of the fall; 0: the training ends at once.
        """
        super().__init__(watched, min_delta=gain, patience=validations, mode="max")
        self._cooldown = cooldown
        self._falls_from: int | None = None

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._falls_from is not None:
            return
        stops = trainer.should_stop
        super().on_validation_end(trainer, pl_module)
        if self._cooldown and trainer.should_stop and not stops:
            trainer.should_stop = False
            self._falls_from = trainer.global_step

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        if self._falls_from is None:
            return
        left = 1 - (trainer.global_step - self._falls_from) / self._cooldown
        rates = trainer.lr_scheduler_configs[0].scheduler.get_last_lr()
        for group, rate in zip(trainer.optimizers[0].param_groups, rates, strict=True):
            group["lr"] = rate * left

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any,
                           batch: Batch, batch_idx: int) -> None:
        if self._falls_from is not None and trainer.global_step >= self._falls_from + self._cooldown:
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "falls_from": self._falls_from}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._falls_from = state_dict["falls_from"]
        super().load_state_dict(state_dict)


class KeepCandidates(Callback):
    """Adds a candidate after every validation and at the last step, also if the trainer skips validations."""

    def __init__(self, candidates: Candidates, every: int) -> None:
        """Args:
            candidates: of the run.
            every: optimiser steps between candidates if the trainer skips validations.
        """
        self._candidates, self._every = candidates, every
        self._last = -1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            self._candidates.begin()
            self._candidates.forget_after(trainer.global_step)
        self._last = trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any,
                           batch: Batch, batch_idx: int) -> None:
        if not trainer.limit_val_batches and not trainer.global_step % self._every:
            self.on_train_end(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            assert isinstance(pl_module, TranslationModule)
            self._keep(trainer, pl_module, float(trainer.callback_metrics[pl_module.watched]))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._last != trainer.global_step:
            self._keep(trainer, pl_module, None)

    def _keep(self, trainer: Trainer, pl_module: LightningModule, score: float | None) -> None:
        self._last = trainer.global_step
        # The weights that were validated are those of WeightAveraging if the user has put in that callback.
        averages = (one._average_model for one in trainer.callbacks if isinstance(one, WeightAveraging))  # type: ignore[attr-defined]
        module = next((one.module for one in averages if one is not None), pl_module)
        assert isinstance(module, TranslationModule)
        weights = module.whole_weights()  # on all devices, which may each have a share
        if trainer.is_global_zero:
            self._candidates.add(Candidate(self._last, score), weights)


class ResumePoint(Callback):
    """Saves the complete state of the run after every validation, so that a killed run can continue from there.

    It saves when the next step begins, after the validation and all its changes of state.
    """

    def __init__(self, folder: Path, curve: Path, every: int) -> None:
        """Args:
            folder: of `resume.ckpt` and, from the validation before, `resume.previous.ckpt`.
            curve: folder of the training curve, which becomes a part of the resume point.
            every: optimiser steps between resume points.
        """
        self._path, self._previous, self._curve, self._every = folder / RESUME, folder / PREVIOUS, curve, every
        self._saved = -1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._saved = trainer.global_step  # a resumed run has its resume point already

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        step = trainer.global_step
        # Lightning numbers logged values by this; on resuming it counts the batch before the point a second time.
        trainer.fit_loop.epoch_loop._batches_that_stepped = step
        if step == self._saved or step % self._every:
            return
        self._saved = step
        if not trainer.is_global_zero:
            trainer.save_checkpoint(self._path)  # takes part, and writes nothing
            return
        with atomic_path(self._path) as aside:
            trainer.save_checkpoint(aside)
            if self._path.exists():
                os.replace(self._path, self._previous)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Count only the batches of whole steps: a resumed run begins with a step, and validates by this count.

        Lightning also counts the batch that is about to begin, and those of a step that is not complete. The resume
        point contains the curve because DVC removes the stage's plots before it runs the stage again.
        """
        checkpoint[CURVE] = read_curve(self._curve)
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        begun = progress["current"]["processed"] % trainer.accumulate_grad_batches
        for counts in (progress["total"], progress["current"]):
            counts |= dict.fromkeys(counts, counts["processed"] - begun)


class Progress(Callback):
    """Prints one line per validation if there is no terminal."""

    def __init__(self) -> None:
        self._began, self._from = 0.0, 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began, self._from = time.perf_counter(), trainer.global_step

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        metrics = trainer.callback_metrics
        seconds = time.perf_counter() - self._began
        if trainer.is_global_zero and not trainer.sanity_checking:
            accepted = metrics.get("validation_accepted")
            drafts = "" if accepted is None else f"{accepted:.2f} accepted tokens per call, "
            print(f"step {trainer.global_step}/{trainer.max_steps}: training loss {metrics['training_loss']:.3f}, "
                  f"validation loss {metrics['validation_loss']:.3f}, BLEU {metrics['validation_bleu']:.2f}, {drafts}"
                  f"{(trainer.global_step - self._from) / seconds:.1f} steps/s", flush=True)
