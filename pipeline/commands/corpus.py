"""Get the sentence pairs of params.yaml's `corpus` block, filter and split them: data/corpus, reports/corpus.json."""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params
from pipeline.sources.build import build_corpus
from pipeline.sources.filtering import dropped_most


def run(arguments: argparse.Namespace) -> None:
    with locked(layout.CORPUS):
        counts = build_corpus(load_params().corpus, layout.CORPUS, layout.REPORTS / "corpus.json")
    for split in layout.SPLITS:
        (name, dropped), read = dropped_most(counts[split]), counts[split]["read"]
        if 2 * dropped > read:
            print(f"{split}: {counts[split]['kept']} of {read} pairs kept; the filter '{name}' dropped {dropped} "
                  "(corpus.filters in params.yaml)")
