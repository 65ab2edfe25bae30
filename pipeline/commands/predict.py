"""Translate a split of the corpus by a family's quick search: runs/FAMILY/NUMBER/predictions.txt, line by line.

The split is that of the option --data.predicted, the test split by default. The weights are those of
checkpoints/FAMILY, or of --ckpt_path: a file that Lightning's ModelCheckpoint has written, or a folder of final
weights. Any option of LightningCLI may follow (--help-lightning lists them). Text of your own is for `translate`, all
decoders of a family for `test`.
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
    from pipeline.training.checkpoints import predict

    predict(family, rest + ["--help"] * arguments.help_lightning)
