"""Train a family: checkpoints/FAMILY, reports/training/FAMILY.

Everything is configured by the family's block of params.yaml; any option of the Lightning CLI may follow and takes
precedence, for example --trainer.max_steps 50 --trainer.precision bf16-mixed --trainer.devices 2 --trainer.strategy ddp
(--help-lightning lists them). A killed run continues where it stopped. A run whose loss or weights are no longer finite
ends with an error. --trainer.fast_dev_run true tests everything with one step and keeps nothing.
"""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params

PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--family", required=True, help="a block of `families` in params.yaml")
    parser.add_argument("--help-lightning", action="store_true", help="list the options of the Lightning CLI")


def run(arguments: argparse.Namespace, overrides: list[str]) -> None:
    load_params().family(arguments.family)
    with locked(layout.checkpoint(arguments.family)):
        from pipeline.training.fit import fit

        fit(arguments.family, overrides + ["--help"] * arguments.help_lightning)
