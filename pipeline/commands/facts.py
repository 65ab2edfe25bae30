"""Record the facts on which a run depends and that DVC cannot see by itself: data/machine.json, inputs.json, decoders.

The first describes the machine, on which every time depends; the second has a digest of each of the user's files from
which the corpus is read; the third has, for each system, the settings and the code of the decoders that it is evaluated
under. The stage `facts` of dvc.yaml runs in every `dvc repro`, so that exactly the stages that depend on a changed fact
run again.
"""

import argparse
from pathlib import Path


def run(arguments: argparse.Namespace) -> None:
    from pipeline.workspace import write_facts

    write_facts(Path())
