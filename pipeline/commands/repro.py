"""Run the whole pipeline with DVC: what has not changed is not run again.

With --profile NAME, presets/NAME.yaml is laid over params.yaml and everything happens in profiles/NAME. Options that
are not known here go on to `dvc repro`, for example --force or the name of a stage.
"""

import argparse
import sys
from pathlib import Path

PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", default="", help="a file of presets/ without its ending (default: none)")


def run(arguments: argparse.Namespace, options: list[str]) -> None:
    from pipeline.params import load_params
    from pipeline.workspace import prepare, reproduce

    load_params()  # a mistake in params.yaml is said before anything starts
    status = reproduce(prepare(arguments.profile) if arguments.profile else Path(), options)
    if status:
        sys.exit(status)
