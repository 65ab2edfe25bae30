"""Run the whole pipeline with DVC: what has not changed is not run again.

With --profile NAME, presets/NAME.yaml is laid over params.yaml and everything happens in profiles/NAME; its figures are
copied to reports/NAME. Options that
are not known here go on to `dvc repro`, for example --force or the name of a stage.
"""

import argparse
import sys
from pathlib import Path

PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", default="", help="a file of presets/ without its ending (default: none)")


def run(arguments: argparse.Namespace, options: list[str]) -> None:
    from pipeline import layout
    from pipeline.params import load_params
    from pipeline.workspace import prepare, publish, reproduce

    load_params()  # a mistake in params.yaml is said before anything starts
    folder = prepare(arguments.profile) if arguments.profile else Path()
    _announce(folder)
    status = reproduce(folder, options)
    if status:
        sys.exit(status)
    if arguments.profile:
        publish(folder, layout.REPORTS / arguments.profile)


def _announce(folder: Path) -> None:
    """Say how long the training will take where it is not done yet."""
    from pipeline.params import PARAMS, load_params
    from pipeline.training.estimate import training_seconds, untrained

    params = load_params(folder / PARAMS)
    families = untrained(params, folder)
    if families:
        steps = sum(params.family(name).training.steps for name in families)
        minutes = training_seconds(params, families) / 60
        print(f"{len(families)} systems have no checkpoint in {folder / 'checkpoints'}: {steps:,} training steps, "
              f"about {minutes:.0f} minutes unless DVC's cache has them; validation, evaluation and timing come on "
              "top. A run that is cut short goes on where it stopped.", flush=True)
