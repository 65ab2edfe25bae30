"""Trains one family by Lightning's command line and writes its checkpoint."""

import json
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import yaml
from pytorch_lightning.callbacks import (
    Callback,
    ProgressBar,
    RichProgressBar,
    StochasticWeightAveraging,
    WeightAveraging,
)
from pytorch_lightning.loggers import Logger

from pipeline import layout
from pipeline.corpus.datamodule import PairsDataModule
from pipeline.errors import PipelineError
from pipeline.families.base import TranslationModule, family_module
from pipeline.families.settings import plain
from pipeline.files import read_json, remove
from pipeline.fingerprint import digest, digest_files, training_code
from pipeline.model.checkpoint import WEIGHTS, save_checkpoint
from pipeline.model.start import DECODER, begin_with
from pipeline.params import load_params
from pipeline.training import saved, sharded
from pipeline.training.callbacks import KeepCandidates, Patience, Progress, ResumePoint, Threads
from pipeline.training.candidates import Candidates
from pipeline.training.command_line import FamilyCLI
from pipeline.training.curve import Curve
from pipeline.training.finite import StopIfNotFinite
from pipeline.training.resume import FINGERPRINT, begin

_TRAINER_KEYS = ("max_steps", "accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "precision",
                 "plugins", "val_check_interval", "limit_val_batches", "callbacks")
"""Options of the trainer that change the result; the others may differ when a run is resumed."""
_DIVIDING = ("fsdp", "deepspeed", "modelparallel")
"""Words in the names of Lightning's strategies that divide the weights, other than `sharded`, which is ours."""


def fit(family: str, options: list[str], in_place: bool) -> None:
    """Train a family to its last step, average its candidates and write its checkpoint.

    Args:
        family: a block of `families`.
        options: of Lightning's command line, which take precedence over the block.
        in_place: write the pipeline's artifacts also if there are options.

    Raises:
        PipelineError: parameters, options, data, or a checkpoint to start from are missing or not valid.
    """
    FitCLI(load_params(), family, options, in_place=in_place)


class FitCLI(FamilyCLI):
    """`fit` of Lightning's command line; an unfinished run goes on, and the end is the average of the candidates."""

    verb = "fit"
    model: TranslationModule
    trainer: Any  # Lightning declares few of its attributes
    _continues = False
    """Whether --ckpt_path is `last`, so that whatever an unfinished run began with, it goes on."""

    def named(self, word: str) -> Path | None:
        """The newest checkpoint of ModelCheckpoint in the run's folder, if there is one; a resume point comes first."""
        if word == "best":
            raise PipelineError("--ckpt_path best: another one may be the best after an interruption, and the training "
                                "could not continue; name the file, or take `last`")
        self._continues = True
        return saved.last([self.root], without=self.places.work)

    def before_instantiate_classes(self) -> None:
        chosen, path = self.settings.trainer, self.settings.ckpt_path
        if chosen.max_steps < 1:
            raise PipelineError(f"--trainer.max_steps: {chosen.max_steps}: the learning rate follows the number of "
                                "steps; name one")
        if chosen.use_distributed_sampler:
            raise PipelineError("--trainer.use_distributed_sampler: Lightning's sampler repeats sentences; leave it "
                                "false, batches are divided among the devices without it")
        if chosen.barebones:
            raise PipelineError("--trainer.barebones: keeps no weights, of which a training here takes the average; "
                                "leave it out (--trainer.fast_dev_run true tries everything quickly)")
        strategy = self._strategy
        if any(word in strategy.lower().replace("_", "") for word in _DIVIDING):
            raise PipelineError(f"--trainer.strategy: {strategy}: divides the weights among devices, and a training "
                                f"here keeps and averages whole ones; use ddp, or {sharded.NAME} if memory is short")
        kind = self.params.family(self.family).kind
        if strategy == sharded.NAME and not family_module(kind).divisible:
            raise PipelineError(f"--trainer.strategy: {strategy}: a family of kind {kind} reads parts of its network "
                                "alone, which must be whole; use ddp, with --trainer.accumulate_grad_batches or "
                                "--trainer.precision bf16-mixed if memory is short")
        if path is not None and Path(path).is_dir():
            raise PipelineError(f"--ckpt_path: {path} is a folder of weights, without the state of a training; name a "
                                "file of ModelCheckpoint, or start from weights by the family's `start` in params.yaml")
        # Lightning's `deterministic` also fills all fresh memory with NaN, a debugging aid that costs time.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        training = self.params.family(self.family).training
        self.candidates = Candidates(self.places.work / "candidates", training.average, training.average_by)

    @property
    def _strategy(self) -> str:
        """The name of the chosen strategy, or the path of its class if it has none."""
        chosen = self.settings.trainer.strategy
        name: str = chosen if isinstance(chosen, str) else chosen.class_path
        return sharded.NAME if name == sharded.PATH else name

    def own_callbacks(self, given: list[Callback]) -> list[Callback]:
        if any(isinstance(one, StochasticWeightAveraging) for one in given):
            raise PipelineError("--trainer.callbacks: StochasticWeightAveraging averages epochs, and a run is a single "
                                "epoch; use WeightAveraging or EMAWeightAveraging, which average steps")
        training, chosen = self.params.family(self.family).training, self.settings.trainer
        if self._strategy == sharded.NAME and any(isinstance(one, WeightAveraging) for one in given):
            raise PipelineError(f"--trainer.callbacks: WeightAveraging with --trainer.strategy {sharded.NAME}: it "
                                "needs whole weights; use ddp, or leave it out: candidates are averaged in any case")
        shown = sys.stderr.isatty() and chosen.enable_progress_bar is not False
        shown = shown and not any(isinstance(one, ProgressBar) for one in given)
        callbacks: list[Callback] = [
            Threads(training.threads),
            StopIfNotFinite(),  # before those that save
            self.validation_bleu(),  # before those that read what it logs
            RichProgressBar(refresh_rate=20) if shown else Progress(),
        ]
        if training.patience:
            watched = family_module(self.params.family(self.family).kind).watched
            callbacks.append(Patience(watched, training.patience, training.patience_gain, training.cooldown))
        if chosen.fast_dev_run:  # it keeps nothing, neither do Lightning's own checkpoints and curves
            return callbacks
        return [*callbacks, KeepCandidates(self.candidates, training.validate_every),
                ResumePoint(self.places.work, self.places.curve, training.validate_every)]

    def own_loggers(self) -> list[Logger]:
        return [Curve(self.places.curve)]

    def fit(self, model: TranslationModule, datamodule: PairsDataModule, ckpt_path: str | None, **_: Any) -> None:
        """Lightning calls this with the options that are not of the trainer's class."""
        start = self._start()
        if start is not None:
            taken = self.params.family(self.family).start_with
            left_out = DECODER if taken.weights == "encoder" else ()
            fresh = begin_with(model.network, start, left_out=left_out, positions=taken.positions, seed=model.seed)
            if fresh and self.trainer.is_global_zero:
                modules = dict.fromkeys(".".join(name.split(".")[:2]) for name in fresh)
                print(f"not taken from {start}, initialised anew: {', '.join(modules)}")
        # Lightning converts later than it loads a resume point, which would be rounded on the way.
        self.trainer.precision_plugin.convert_module(model)
        self.together.meet(self.trainer)
        with self.locked(self.places.checkpoint):
            if self.trainer.fast_dev_run:
                self.run(self.trainer.fit, model, datamodule, ckpt_path=ckpt_path)
            else:
                self._train(ckpt_path)

    def _train(self, ckpt_path: str | None) -> None:
        """Train from a resume point, from a given checkpoint or from the first step to the last, and write the end."""
        model, data, trainer, places = self.model, self.datamodule, self.trainer, self.places
        point = begin(places.work, self.inputs, self.candidates, places.curve, trainer)
        own = places.checkpoint != layout.checkpoint(self.family)
        if own:
            self.save_configuration(self.root)
        self.run(trainer.fit, model, data, ckpt_path=point or ckpt_path)
        if trainer.is_global_zero:
            figure = model.watched.removeprefix("validation_")
            weights, chosen = self.candidates.average()
            save_checkpoint(places.checkpoint, model.network, model.vocabulary, weights, {
                "family": self.family, "data": data.settings.side, "steps": trainer.global_step,
                "threads": self.params.family(self.family).training.threads,
                "averaged": [{"step": one.step, figure: one.score} for one in chosen]})
            if self._options and not own:  # params.yaml does not say it all
                self.save_configuration(places.checkpoint)
            remove(places.work)
            if own:
                print(f"{places.checkpoint}: written; with --in-place, the same command writes "
                      f"{layout.checkpoint(self.family)}")
        trainer.strategy.barrier()  # no process returns, perhaps to train again, while the first one still writes

    def _start(self) -> Path | None:
        """The folder of the weights that training starts from; None: it starts from random ones, or a checkpoint."""
        start = self.params.start_of(self.family)
        return None if start is None or self.settings.ckpt_path is not None else layout.checkpoint(start)

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Hashes of what must not have changed for an interrupted run to continue: parameters, data, start, code."""
        config = yaml.safe_load(self._parser(self.verb).dump(self.settings, skip_none=False))
        config["trainer"] = {key: config["trainer"][key] for key in _TRAINER_KEYS}
        given = config.pop("ckpt_path")
        settings, start = self.params.family(self.family), self._start()
        begun = [Path(given)] if given is not None else [] if start is None else [start / WEIGHTS]
        files = [*self.datamodule.training_paths(), self.datamodule.folder / "validation.pairs",
                 layout.CORPUS / "validation.target"]
        if settings.verifier is not None:
            files.append(layout.checkpoint(settings.verifier) / WEIGHTS)
        chosen = [config, plain(settings.training), plain(settings.start_with), plain(self.params.limit),
                  self.params.evaluation.bleu_tokenizer]
        unfinished = _start_of(self.places.work) if self._continues else None
        return {
            "parameters": digest(json.dumps(chosen, sort_keys=True, default=str).encode()),
            "data": digest_files([*files, *settings.inputs()]),
            "start": unfinished or digest_files(begun),
            "code": digest(json.dumps(training_code(settings.kind)).encode()),
        }


def _start_of(work: Path) -> str | None:
    """The hash of what an unfinished run began with, which may be gone; None: there is none."""
    with suppress(PipelineError, KeyError, TypeError):
        return str(read_json(work / FINGERPRINT)["start"])
    return None
