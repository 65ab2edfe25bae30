"""Time the teacher and all students under all their decoders, interleaved sentence by sentence: reports/speed.json."""

import argparse

from pipeline import layout
from pipeline.params import load_params


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options: params.yaml's `speed` block says it all."""


def run(arguments: argparse.Namespace) -> None:
    from pipeline.evaluation.clock import time_all
    from pipeline.evaluation.machine import write_machine

    if not layout.MACHINE.exists():
        write_machine(layout.MACHINE)
    time_all(load_params(), layout.REPORTS / "speed.json")
