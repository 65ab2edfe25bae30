"""Get the sentence pairs of params.yaml's `corpus` block, filter and split them: data/corpus, reports/corpus.json."""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params
from pipeline.sources.build import build_corpus


def run(arguments: argparse.Namespace) -> None:
    with locked(layout.CORPUS):
        build_corpus(load_params().corpus, layout.CORPUS, layout.REPORTS / "corpus.json")
