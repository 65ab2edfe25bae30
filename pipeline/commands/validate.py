"""Print the validation loss and BLEU of a family's weights.

The weights are those of checkpoints/FAMILY, or of --ckpt_path: a file that Lightning's ModelCheckpoint has written, or
a folder of final weights. Any option of LightningCLI may follow (--help-lightning lists them). Nothing is written.
"""

import argparse

from pipeline.params import load_params
from pipeline.training import options

PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_family(parser)
    options.add_arguments(parser)


def run(arguments: argparse.Namespace, rest: list[str]) -> None:
    family = options.family_of(load_params(), arguments.family, rest)
    from pipeline.training.checkpoints import validate

    validate(family, rest + ["--help"] * arguments.help_lightning)
