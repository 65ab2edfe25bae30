"""Log-probability of given translations under a family, one line per pair: sum, number of scored tokens, and the pair.

Reads SOURCE<TAB>TRANSLATION lines from --input or standard input. The sum is over every slot that a search would have
filled, end symbols included, so it equals the search's own score of the translation before any length penalty.

A pair with a side that is longer than the model's limit has no score: the command names its line and ends there. The
output of an empty input is empty.
"""

import argparse
import sys
from pathlib import Path

from pipeline.model_options import open_trained
from pipeline.params import load_params


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--family", help="a trained block of `families` in params.yaml")
    model.add_argument("--model", metavar="FOLDER", help="a model folder (`export folder`)")
    parser.add_argument("--input", type=Path, help="tab-separated file (default: standard input)")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")


def run(arguments: argparse.Namespace) -> None:
    from itertools import islice

    from pipeline.documents.plain import read_columns, read_utf8
    from pipeline.scoring import PairLine, Scorer
    from pipeline.text_model import open_folder

    file = str(arguments.input or "standard input")
    lines = read_columns(read_utf8(arguments.input), file, "give SOURCE<TAB>TRANSLATION")
    pairs = (PairLine(f"{file}:{number}", *columns) for number, columns in enumerate(lines, 1))
    model = (open_folder(Path(arguments.model))[0] if arguments.family is None
             else open_trained(load_params(), arguments.family))
    scorer = Scorer(model, arguments.device)
    while chunk := list(islice(pairs, 64)):
        for pair, (score, slots) in zip(chunk, scorer(chunk), strict=True):
            sys.stdout.buffer.write(f"{score:.6f}\t{slots}\t{pair.source}\t{pair.translation}\n".encode())
        sys.stdout.buffer.flush()
