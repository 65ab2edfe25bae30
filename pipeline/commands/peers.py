"""Translate the test split by other libraries' searches with the baseline's weights, and score it.

The block `peers` of params.yaml lists them. Writes data/peers (the baseline in their formats), data/hypotheses/peer and
reports/quality/peer.json.
"""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params


def run(arguments: argparse.Namespace) -> None:
    from pipeline.evaluation.peers import score_peers

    with locked(layout.PEERS):
        score_peers(load_params())
