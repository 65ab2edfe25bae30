"""Train a family: checkpoints/FAMILY, reports/training/FAMILY.

Everything is configured by the family's block of params.yaml. Any option of LightningCLI may follow and takes
precedence: --trainer.max_steps 50, --trainer.precision bf16-mixed, --trainer.devices 2 --trainer.strategy ddp,
--config FILE, --print_config and so on (--help-lightning lists them). With options, the run writes to a folder of its
own unless --in-place is among them. A killed run continues where it stopped. A run whose loss or weights are no longer
finite ends with an error. --trainer.fast_dev_run true tests everything with one step and keeps nothing.
"""

import argparse

from pipeline.params import load_params
from pipeline.training import options

PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_family(parser)
    options.add_arguments(parser, in_place="checkpoints/FAMILY and reports/training/FAMILY")


def run(arguments: argparse.Namespace, rest: list[str]) -> None:
    family = options.family_of(load_params(), arguments.family, rest)
    from pipeline.training.fit import fit

    fit(family, rest + ["--help"] * arguments.help_lightning, arguments.in_place)
