"""Trains one family by the Lightning CLI and writes its checkpoint."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
import yaml
from pytorch_lightning.callbacks import Callback, EarlyStopping, RichProgressBar
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import PairsDataModule
from pipeline.errors import PipelineError
from pipeline.families.base import TranslationModule, family_module
from pipeline.families.settings import plain
from pipeline.files import reading, remove
from pipeline.fingerprint import code_digest, digest
from pipeline.model.checkpoint import WEIGHTS, load_weights, save_checkpoint
from pipeline.params import Params, load_params
from pipeline.training.callbacks import KeepCandidates, Progress, ResumePoint, Threads, ValidationBleu
from pipeline.training.candidates import Candidates
from pipeline.training.command_line import ConfiguredCLI, curve_folder, family_config
from pipeline.training.finite import StopIfNotFinite
from pipeline.training.quiet import quiet_lightning
from pipeline.training.resume import begin

_TRAINER_KEYS = ("max_steps", "accumulate_grad_batches", "gradient_clip_val", "precision", "val_check_interval",
                 "limit_val_batches")
"""Options of the trainer that change the result; the others may differ when a run is resumed."""


def fit(family: str, overrides: list[str]) -> None:
    """Train a family to its last step, average its candidates and write its checkpoint.

    Args:
        family: a block of `families`.
        overrides: options of the Lightning CLI, which take precedence over the block.

    Raises:
        PipelineError: parameters, data, or a checkpoint to start from are missing or not valid.
    """
    params = load_params()
    settings = params.family(family)
    tokenizer = Tokenizer.load(layout.BPE)
    work = layout.WORK / family
    config = family_config(params, family, tokenizer)
    candidates = Candidates(work / "candidates", settings.training.average, settings.training.average_by)
    quiet_lightning()
    # Lightning's `deterministic` also fills all fresh memory with NaN, a debugging aid that costs time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    with _one_line():
        cli = ConfiguredCLI(family_module(settings.kind), config, overrides,
                            _callbacks(params, family, tokenizer, candidates, work))
    trainer: Any = cli.trainer  # Lightning declares few of its attributes
    module = cli.model
    start = _start(params, family)
    if start is not None:
        fresh = load_weights(module.network, start, partial=True)
        if fresh and trainer.is_global_zero:
            print(f"not in {start}, initialised anew: {', '.join(fresh)}")
    if trainer.fast_dev_run:  # it keeps nothing, neither do Lightning's own checkpoints and curves
        trainer.callbacks = [one for one in trainer.callbacks if not isinstance(one, KeepCandidates | ResumePoint)]
        _train(trainer, module, cli.datamodule, None)
        return
    _train(trainer, module, cli.datamodule,
           begin(work, _fingerprint(cli, params, family), candidates, curve_folder(family), trainer))
    if trainer.is_global_zero:
        weights, chosen = candidates.average()
        save_checkpoint(layout.checkpoint(family), module.network, module.vocabulary, weights, {
            "family": family, "data": cli.datamodule.settings.side, "steps": trainer.global_step,
            "threads": settings.training.threads, "averaged": [dataclasses.asdict(one) for one in chosen]})
        remove(work)
    trainer.strategy.barrier()  # no process returns, perhaps to train again, while the first one still writes


def _train(trainer: lightning.Trainer, module: TranslationModule, data: PairsDataModule, point: Path | None) -> None:
    """Train from a resume point, or from the first step, to the last."""
    try:
        with _one_line():
            trainer.fit(module, data, ckpt_path=point, weights_only=True)
    except SystemExit:  # how Lightning passes on control-C
        raise KeyboardInterrupt from None


@contextmanager
def _one_line() -> Iterator[None]:
    """Report Lightning's errors about the trainer's options in one line."""
    try:
        yield
    except MisconfigurationException as error:
        raise PipelineError(f"options of the trainer: {' '.join(str(error).split())}") from error


def _start(params: Params, family: str) -> Path | None:
    """The file of the weights that a family's training starts from; None: it starts from random ones."""
    start = params.starts.get(family)
    return layout.checkpoint(start) / WEIGHTS if start is not None and params.family(family).takes_weights else None


def _callbacks(params: Params, family: str, tokenizer: Tokenizer, candidates: Candidates, work: Path) -> list[Callback]:
    training = params.family(family).training
    references = layout.read_lines(layout.CORPUS / "validation.target")
    limit = params.length_limit(params.family(family).network.max_length)
    callbacks: list[Callback] = [
        Threads(training.threads),
        StopIfNotFinite(),  # before those that save
        ValidationBleu(tokenizer, references, limit),  # before those that read what it logs
        KeepCandidates(candidates, training.validate_every),
        ResumePoint(work, curve_folder(family), training.validate_every),
        RichProgressBar(refresh_rate=20) if sys.stderr.isatty() else Progress(),
    ]
    if training.patience:
        callbacks.append(EarlyStopping("validation_bleu", mode="max", patience=training.patience))
    return callbacks


def _fingerprint(cli: ConfiguredCLI, params: Params, family: str) -> dict[str, str]:
    """Hashes of what must not have changed for an interrupted run to continue: parameters, data, start and code."""
    config = yaml.safe_load(cli.parser.dump(cli.config, skip_none=False))
    config["trainer"] = {key: config["trainer"][key] for key in _TRAINER_KEYS}
    settings, start = params.family(family), _start(params, family)
    files = cli.datamodule.training_paths()
    if start is not None:
        files.append(start)
    if settings.verifier is not None:
        files.append(layout.checkpoint(settings.verifier) / WEIGHTS)
    contents = []
    for file in [*files, *settings.inputs()]:
        with reading(file):
            contents.append(file.read_bytes())
    return {
        "parameters": digest(json.dumps([config, plain(settings.training)], sort_keys=True,
                                        default=str).encode()),
        "data": digest(*contents),
        "code": code_digest(),
    }
