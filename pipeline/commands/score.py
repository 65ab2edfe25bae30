"""Log-probability of given translations under a family, one line per pair: sum, number of scored tokens, and the pair.

Reads SOURCE<TAB>TRANSLATION lines from --input or standard input. The sum is over every slot that a search would have
filled, end symbols included, so it equals the search's own score of the translation before any length penalty.

A line without one tab, or with a side that is longer than the model's limit, has no score: the command prints those of
the lines before it, names it, and ends. The output of an empty input is empty.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.batch_options import add_batch_arguments, check_batch_arguments, lines_ahead
from pipeline.chunks import chunks
from pipeline.documents.plain import read_columns, read_utf8
from pipeline.errors import PipelineError
from pipeline.model_options import add_model_arguments, is_checkpoint, open_model

if TYPE_CHECKING:
    from pipeline.scoring import PairLine, Scorer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser, checkpoints=False)
    parser.add_argument("--input", type=Path, help="tab-separated file (default: standard input)")
    add_batch_arguments(parser)
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")


def run(arguments: argparse.Namespace) -> None:
    check_batch_arguments(arguments)
    if is_checkpoint(arguments.model):
        raise PipelineError(f"--model: {arguments.model} is a checkpoint of transformers, which is opened to be "
                            "searched step by step and gives a whole translation no score; name a family or a model "
                            "folder, or take the loss that transformers computes")
    lines = read_utf8(arguments.input)  # a missing file is reported before a model is loaded
    from pipeline.scoring import Scorer

    scorer = Scorer(open_model(arguments).model, arguments.device, arguments.batch_tokens)
    pairs = _pairs(lines, str(arguments.input or "standard input"), scorer)
    for chunk in chunks(pairs, lines_ahead(arguments)):
        for pair, (score, slots) in zip(chunk, scorer(chunk), strict=True):
            sys.stdout.buffer.write(f"{score:.6f}\t{slots}\t{pair.source}\t{pair.translation}\n".encode())
        sys.stdout.buffer.flush()


def _pairs(lines: Iterator[str], file: str, scorer: "Scorer") -> "Iterator[PairLine]":
    """The pairs of a file's lines, which have scores.

    Raises:
        PipelineError: a line has none.
    """
    from pipeline.scoring import PairLine

    for number, columns in enumerate(read_columns(lines, file, "give SOURCE<TAB>TRANSLATION"), 1):
        pair = PairLine(f"{file}:{number}", *columns)
        scorer.check(pair)
        yield pair
