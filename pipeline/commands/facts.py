"""Record the facts on which a run depends and that DVC cannot see by itself, as files of the folder `data`.

machine.json describes the machine, on which every time depends; inputs.json has a digest of each of the user's files
from which the corpus is read; trainings has, for each system, the settings and the code that decide its weights;
decoders those of the decoders under which it is evaluated, and distillation.json those of the teacher's translation.
The stage `facts` of dvc.yaml runs in every `dvc repro`, so that exactly the stages that depend on a changed fact run
again.
"""

import argparse
from pathlib import Path


def run(arguments: argparse.Namespace) -> None:
    from pipeline.workspace import write_facts

    write_facts(Path())
