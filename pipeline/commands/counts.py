"""Count the aligned pairs: data/counts, the lattice's candidates and lengths; reports/counts.json."""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params


def run(arguments: argparse.Namespace) -> None:
    from pipeline.alignment.build import count_sides
    from pipeline.corpus.bpe import Tokenizer

    with locked(layout.COUNTS):
        count_sides(layout.TRAINING_SIDES, layout.ALIGNMENT, Tokenizer.load(layout.BPE), load_params().counts,
                    layout.COUNTS, layout.REPORTS / "counts.json")
