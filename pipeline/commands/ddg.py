"""Show which token of a translation depends on which: the iterates of Parallel Jacobi decoding, and a graph of them.

Prints the iterations, and writes an interactive page (ddg.html) and pictures (ddg.png, ddg.svg).
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.model_options import add_model_arguments, open_model

PAGE, PICTURES = "ddg.html", ("ddg.png", "ddg.svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sentence", help="of the source language")
    add_model_arguments(parser)
    parser.add_argument("--output", type=Path, default=Path("ddg"), metavar="DIR",
                        help="a folder, new or of an earlier call (default: ddg)")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")


def run(arguments: argparse.Namespace) -> None:
    output = arguments.output.resolve()
    _check_folder(output)  # before a model is loaded
    sentence = arguments.sentence
    if any("\ud800" <= letter <= "\udfff" for letter in sentence):  # bytes of the command line that are not UTF-8
        raise PipelineError("sentence: not UTF-8; convert it first (iconv -t UTF-8)")

    from pipeline.device import pick_device
    from pipeline.evaluation.analyses import chart
    from pipeline.evaluation.analyses.jacobi.page import render_page
    from pipeline.evaluation.analyses.jacobi.picture import draw
    from pipeline.evaluation.analyses.jacobi.sentence import inspect, render
    from pipeline.files import atomic_path

    opened = open_model(arguments)
    model = opened.model
    model.network.to(pick_device(arguments.device))
    inspected = inspect(model, opened.settings.length_limit(model.longest), sentence)
    if inspected.warning:
        print(inspected.warning, file=sys.stderr)
    figure = draw(inspected)
    page = render_page(inspected, *(opened.languages or ("", "")))
    contents = [page.encode(), chart.png(figure), chart.svg(figure)]
    with atomic_path(output) as folder:
        folder.mkdir()
        for name, content in zip((PAGE, *PICTURES), contents, strict=True):
            (folder / name).write_bytes(content)
    sys.stdout.buffer.write(render(inspected, shutil.get_terminal_size().columns).encode())
    sys.stdout.buffer.flush()
    print(f"written: {arguments.output / PAGE}, {', '.join(PICTURES)}", file=sys.stderr)


def _check_folder(folder: Path) -> None:
    """Check that a folder is absent, empty, or the output of an earlier call and nothing else.

    Raises:
        PipelineError: it is not, or it is a file or the current folder.
    """
    from pipeline.evaluation.analyses.jacobi.page import GENERATOR

    if not os.path.exists(folder):
        return
    if folder == Path.cwd():
        raise PipelineError(f"--output: {folder} is the current folder; name another one")
    if not folder.is_dir():
        raise PipelineError(f"--output: {folder} is a file; name a folder")
    names = {path.name for path in folder.iterdir()}
    if not names:
        return
    mark = f'<meta name="generator" content="{GENERATOR}">'
    if names != {PAGE, *PICTURES} or mark not in (folder / PAGE).read_text(encoding="utf-8", errors="replace"):
        raise PipelineError(f"--output: {folder} has files that this command has not written; name another folder")
