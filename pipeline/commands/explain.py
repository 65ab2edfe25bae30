"""Show how a decoder that drafts and verifies finds its translations: standard input or --input, line by line.

Every call of the verifier is two rows: D, the draft, and V, the verifier's predictions.

  in colour         otherwise
  green             piece       accepted: the verifier's argmax
  blue              (piece)     accepted although the verifier's argmax is another piece (decoders with ++ only)
  bold red          [piece]     the first difference of draft and verifier; the verifier's piece is accepted
  dim, struck out   ~piece~     dropped

▁ is the space before a word. An accepted end symbol counts as a token. Text is UTF-8; a byte-order mark at its
beginning is ignored. The output of an empty input is empty.
"""

import argparse
import os
import sys
from pathlib import Path

from pipeline.documents.plain import read_utf8
from pipeline.model_options import add_model_arguments, open_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument("--decoder", help="an entry of `decoders` that drafts (default: the family's first)")
    parser.add_argument("--input", type=Path, help="text file (default: standard input)")
    parser.add_argument("--color", choices=("always", "auto", "never"), default="auto",
                        help="auto (default): if the output is a terminal and NO_COLOR is not set")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")


def run(arguments: argparse.Namespace) -> None:
    lines = read_utf8(arguments.input)  # a missing file is reported before a model is loaded
    from pipeline.trace import Tracer, render

    opened = open_model(arguments)
    tracer = Tracer(opened.settings, opened.model, opened.decoder(arguments.decoder), device=arguments.device)
    pieces, colour = opened.model.text.target_pieces, _wants_colour(arguments.color)
    for number, line in enumerate(lines, 1):
        trace = tracer.trace(line)
        if trace.warning:
            print(f"line {number}: {trace.warning}", file=sys.stderr)
        sys.stdout.buffer.write(("\n" * (number > 1) + render(trace, pieces, colour=colour)).encode())
        sys.stdout.buffer.flush()


def _wants_colour(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
