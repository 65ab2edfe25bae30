"""The Lightning CLI of a family, configured by params.yaml."""

import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
from pytorch_lightning.cli import ArgsType, LightningArgumentParser, LightningCLI

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import PairsDataModule
from pipeline.families.settings import plain
from pipeline.params import Params


class ConfiguredCLI(LightningCLI):
    """Makes a module, its data and its trainer from a configuration; options of the command line take precedence."""

    def __init__(self, module: type[lightning.LightningModule], configuration: dict[str, Any], options: list[str],
                 callbacks: list[lightning.Callback] | None = None) -> None:
        """Args:
            module: class of the module.
            configuration: the content of a YAML file for Lightning's --config: seed_everything, trainer, model, data.
            options: of the command line.
            callbacks: of the trainer, before those that options name.
        """
        self._configuration, self._options = configuration, options
        super().__init__(module, PairsDataModule, run=False, save_config_callback=None, args=options,
                         trainer_defaults={"callbacks": callbacks or []})

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        self.config = parser.parse_args(self._options, namespace=parser.parse_object(self._configuration))


def curve_folder(family: str) -> Path:
    """Folder of a family's training curve, an output of its stage."""
    return layout.REPORTS / "training" / family


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
                # It continues the curve in its folder, which `resume.begin` restores to the resume point or empties.
                "dir": str(curve_folder(family)), "resume": True,
                # dvc.yaml declares the curves; dvclive must write neither a dvc.yaml of its own nor an experiment.
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
            "validation_sentences": training.validation_sentences, "longest": settings.network.max_length,
            "seed": params.seed,
        },
    }
