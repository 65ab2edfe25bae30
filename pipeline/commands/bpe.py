"""Learn the BPE vocabulary of params.yaml's `bpe` block and encode the corpus: data/bpe, reports/bpe.json."""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params


def run(arguments: argparse.Namespace) -> None:
    from pipeline.train_bpe import train_bpe

    with locked(layout.BPE):
        train_bpe(load_params().bpe, layout.CORPUS, layout.BPE, layout.REPORTS / "bpe.json")
