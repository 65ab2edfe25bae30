"""The Lightning CLI of one family: its block of params.yaml in, its checkpoint out."""

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
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.families.base import TranslationModule, family_module
from pipeline.families.settings import plain
from pipeline.files import remove
from pipeline.fingerprint import code_digest, digest
from pipeline.model.checkpoint import WEIGHTS, load_weights, save_checkpoint
from pipeline.params import Params, load_params
from pipeline.training.callbacks import KeepCandidates, Progress, ResumePoint, Threads, ValidationBleu
from pipeline.training.candidates import Candidates
from pipeline.training.command_line import ConfiguredCLI
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
        overrides: options of the Lightning CLI, which win over the block.

    Raises:
        PipelineError: something is wrong with parameters, data, or a checkpoint to start from.
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
    if trainer.fast_dev_run:  # nothing is kept, as of Lightning's own checkpoints and curves
        trainer.callbacks = [one for one in trainer.callbacks if not isinstance(one, KeepCandidates | ResumePoint)]
        _train(trainer, module, cli.datamodule, None)
        return
    _train(trainer, module, cli.datamodule,
           begin(work, _fingerprint(cli, params, family), candidates, _curve(family), trainer))
    if trainer.is_global_zero:
        weights, chosen = candidates.average()
        save_checkpoint(layout.checkpoint(family), module.network, module.vocabulary, weights, {
            "family": family, "data": cli.datamodule.settings.side, "steps": trainer.global_step,
            "threads": settings.training.threads, "averaged": [dataclasses.asdict(one) for one in chosen]})
        remove(work)
    trainer.strategy.barrier()  # no process comes back, perhaps to train again, while the first one still writes


def _train(trainer: lightning.Trainer, module: TranslationModule, data: PairsDataModule, point: Path | None) -> None:
    """Train from a resume point, or from the first step, to the last."""
    try:
        with _one_line():
            trainer.fit(module, data, ckpt_path=point, weights_only=True)
    except SystemExit:  # how Lightning passes on control-C
        raise KeyboardInterrupt from None


@contextmanager
def _one_line() -> Iterator[None]:
    """What Lightning has to say against the trainer's options, as an error of ours."""
    try:
        yield
    except MisconfigurationException as error:
        raise PipelineError(f"options of the trainer: {' '.join(str(error).split())}") from error


def family_config(params: Params, family: str, tokenizer: Tokenizer) -> dict[str, Any]:
    """The Lightning CLI's configuration of a family."""
    settings = params.family(family)
    training = settings.training
    return {
        "seed_everything": params.seed,
        "trainer": {
            "max_steps": training.steps, "max_epochs": 1, "accumulate_grad_batches": training.accumulate,
            "gradient_clip_val": training.clip or None, "precision": training.precision,
            # In batches, and across "epochs": a run is one pass over an endless stream.
            "val_check_interval": training.validate_every * training.accumulate, "check_val_every_n_epoch": None,
            "num_sanity_val_steps": 0, "use_distributed_sampler": False, "log_every_n_steps": 50,
            "enable_checkpointing": False, "enable_model_summary": False, "deterministic": "warn",
            "enable_progress_bar": sys.stderr.isatty(),
            "logger": {"class_path": "dvclive.lightning.DVCLiveLogger", "init_args": {
                # It takes its folder as it is: `resume.begin` makes that what it was at the resume point, or empty.
                "dir": str(_curve(family)), "resume": True,
                # dvc.yaml declares the curves; dvclive shall neither write a dvc.yaml of its own nor an experiment.
                "dvcyaml": None, "save_dvc_exp": False, "report": None}},
        },
        "model": {
            "network": plain(settings.network), **settings.arguments(),
            "optimisation": plain(settings.optimisation), "seed": params.seed,
            "vocabulary": {"source": tokenizer.source_size, "target": tokenizer.target_size,
                           "digest": tokenizer.digest},
        },
        "data": {
            "folder": str(layout.BPE), "distilled": str(layout.DISTILLED), **plain(settings.data),
            "evaluation_rows": params.evaluation.batch_rows,
            "validation_sentences": settings.training.validation_sentences, "longest": settings.network.max_length,
            "seed": params.seed,
        },
    }


def _start(params: Params, family: str) -> Path | None:
    """The weights that a family's training starts from; None: those of a new module."""
    start = params.starts.get(family)
    return layout.checkpoint(start) / WEIGHTS if start is not None and params.family(family).takes_weights else None


def _callbacks(params: Params, family: str, tokenizer: Tokenizer, candidates: Candidates, work: Path) -> list[Callback]:
    training = params.family(family).training
    references = layout.read_lines(layout.CORPUS / "validation.target")
    limit = LengthLimit(params.limit.ratio, params.limit.extra, params.family(family).network.max_length - 1)
    callbacks: list[Callback] = [
        Threads(training.threads),
        StopIfNotFinite(),  # before those that save
        ValidationBleu(tokenizer, references, limit),  # before those that read what it logs
        KeepCandidates(candidates, training.validate_every),
        ResumePoint(work, _curve(family), training.validate_every),
        RichProgressBar(refresh_rate=20) if sys.stderr.isatty() else Progress(),
    ]
    if training.patience:
        callbacks.append(EarlyStopping("validation_bleu", mode="max", patience=training.patience))
    return callbacks


def _curve(family: str) -> Path:
    """Folder of a family's training curve, an output of its stage."""
    return layout.REPORTS / "training" / family


def _fingerprint(cli: ConfiguredCLI, params: Params, family: str) -> dict[str, str]:
    """What must not have changed for a half-finished run to go on: parameters, data, start and code."""
    config = yaml.safe_load(cli.parser.dump(cli.config, skip_none=False))
    config["trainer"] = {key: config["trainer"][key] for key in _TRAINER_KEYS}
    settings, start = params.family(family), _start(params, family)
    files = cli.datamodule.training_paths()
    if start is not None:
        files.append(start)
    if settings.verifier is not None:
        files.append(layout.checkpoint(settings.verifier) / WEIGHTS)
    files += settings.inputs()
    for file in files:
        if not file.exists():
            raise PipelineError(f"{file}: not found; run `dvc repro` to produce it")
    return {
        "parameters": digest(json.dumps([config, plain(settings.training)], sort_keys=True,
                                        default=str).encode()),
        "data": digest(*(path.read_bytes() for path in files)),
        "code": code_digest(),
    }
