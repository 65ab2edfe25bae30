"""Translate the test split under every decoder of a family and score it.

Writes data/hypotheses/FAMILY and reports/quality/FAMILY.json.

Any option of the Lightning CLI may follow, for example --trainer.devices 2 --trainer.accelerator cpu: the
figures do not depend on the number of devices.
"""

import argparse

PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--family", required=True, help="a block of `families` in params.yaml")
    parser.add_argument("--decoder", action="append", metavar="NAME",
                        help="an entry of `decoders` in params.yaml; repeat it for several (default: the family's)")
    parser.add_argument("--help-lightning", action="store_true", help="list the options of the Lightning CLI")


def run(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from pipeline.evaluation.test import test

    test(arguments.family, arguments.decoder, overrides + ["--help"] * arguments.help_lightning)
