"""Train a family: checkpoints/FAMILY, reports/training/FAMILY.

Everything is configured by the family's block of params.yaml. Any option of LightningCLI may follow and takes
precedence: --trainer.max_steps 50, --trainer.precision bf16-mixed, --trainer.devices 2 --trainer.strategy ddp,
--config FILE, --print_config and so on (--help-lightning lists them). With options, the run writes to a folder of its
own unless --in-place is among them. A killed run continues where it stopped. A run whose loss or weights are no longer
finite ends with an error. --trainer.fast_dev_run true tests everything with one step and keeps nothing.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.allocator import keep_freed_memory
from pipeline.errors import PipelineError
from pipeline.params import load_params
from pipeline.training import options

if TYPE_CHECKING:
    from pipeline.corpus.datamodule import PairsDataModule

PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_family(parser)
    options.add_arguments(parser, in_place="checkpoints/FAMILY and reports/training/FAMILY")


def run(arguments: argparse.Namespace, rest: list[str]) -> None:
    keep_freed_memory()
    params = load_params()
    family = options.family_of(params, arguments.family, rest)
    from pipeline.training.fit import FitCLI

    class CheckedFit(FitCLI):
        def before_fit(self) -> None:
            """Lightning calls this when it has made the data module and the trainer, before `fit`."""
            _check_data(self.datamodule, self.trainer.is_global_zero)
            if (start := self._start()) is not None:
                _check_start(start, self.datamodule.tokenizer.digest)

    CheckedFit(params, family, rest + ["--help"] * arguments.help_lightning, in_place=arguments.in_place)


def _check_data(data: "PairsDataModule", reports: bool) -> None:
    """Check that the pairs of training and validation are of the vocabulary in use, and report if sources are cut."""
    from pipeline.corpus.padding import count_cut, report_cut
    from pipeline.corpus.pairs import Pairs

    digest = data.tokenizer.digest
    Pairs.open(data.folder / "validation.pairs", digest)
    lengths = [Pairs.open(path, digest).source_lengths for path in data.training_paths()]
    if reports:
        report_cut(sum(count_cut(some, data.longest) for some in lengths), sum(map(len, lengths)), data.longest)


def _check_start(start: Path, digest: str) -> None:
    """Check that the weights that a training begins with are of the vocabulary in use."""
    from pipeline.model.checkpoint import read_config

    trained = read_config(start)["vocabulary"]["digest"]
    if trained != digest:
        raise PipelineError(f"{start}: trained with vocabulary {trained[:12]}, but {digest[:12]} is in use; train it "
                            "again or restore its data/bpe (`dvc checkout`)")
