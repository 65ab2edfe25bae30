"""Write down what a run depends on and DVC cannot see by itself: data/machine.json and data/inputs.json.

The first describes the machine, on which every time depends; the second has a digest of each file of the user's that
the corpus is read from. The stage `facts` of dvc.yaml runs in every `dvc repro`, so that what depends on a fact that
has changed runs again, and nothing else does.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(arguments: argparse.Namespace) -> None:
    from pipeline.workspace import write_facts

    write_facts(Path())
