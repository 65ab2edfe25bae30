"""Analyse a finished run as the papers do: reports/analyses.json, and pictures in reports/analyses.

Lattices: recall of the candidates, BLEU and time against their number and against layers, the effect of search, the
learnt normaliser, and a breakdown of time. Drafting: speed per sentence, a breakdown of time, memory, and accepted
tokens against block, acceptance, size and training. Other orders: precision at both ends, agreement of subject and
verb, repetitions, dependence of the words of a step, quality and speed against the source's length, speed against batch
and beam and against size, and time of training. Jacobi decoding: dependencies of tokens, known lengths, operations, and
speed against cores.
"""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params


def run(arguments: argparse.Namespace) -> None:
    from pipeline.evaluation.analyses.analyse import analyse

    pictures = layout.REPORTS / "analyses"
    with locked(pictures):
        analyse(load_params(), pictures, pictures.with_suffix(".json"))
