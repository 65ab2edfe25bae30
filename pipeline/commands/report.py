"""Write the table, the claims, the picture and the page: decoders.*, claims.json, quality_speed.png, data/page."""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params


def run(arguments: argparse.Namespace) -> None:
    from pipeline.evaluation.report import build_report

    with locked(layout.REPORTS):
        build_report(load_params())
