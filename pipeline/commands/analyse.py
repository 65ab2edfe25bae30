"""Ask of a finished run what the papers ask of their systems: reports/analyses.json, and pictures in reports/analyses.

Of a lattice: recall of its candidates, BLEU and time against their number and against layers, what search changes,
where time goes. Of drafting: speed a sentence, where time goes, memory, accepted tokens against block, acceptance, size
and training.
"""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options: the block `analyses` says it all."""


def run(arguments: argparse.Namespace) -> None:
    from pipeline.evaluation.analyses.analyse import analyse

    pictures = layout.REPORTS / "analyses"
    with locked(pictures):
        analyse(load_params(), pictures, pictures.with_suffix(".json"))
