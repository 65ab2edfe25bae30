"""The options of commands that answer line by line: how large their batches are, and how far they read ahead."""

import argparse
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from pipeline.errors import PipelineError

FAR = 1024
"""Lines that are read ahead where nobody waits: enough for batches of sentences of similar length."""
_NEAR = 32


def add_batch_arguments(parser: argparse.ArgumentParser, piped: str = f"{_NEAR}") -> None:
    """Add --batch-tokens and --ahead, whose default from a pipe is `piped`, in words."""
    parser.add_argument("--batch-tokens", type=int, default=512, metavar="N",
                        help="tokens that share a batch, padding included, or one line that has more (default: 512)")
    parser.add_argument("--ahead", type=int, metavar="N",
                        help="lines to read before the first of them is answered, so that those of similar length "
                             f"share a batch (default: 1 from a terminal, {FAR:,} from a file, else {piped}); 1 for a "
                             "program that waits for each answer")


def check_batch_arguments(arguments: argparse.Namespace) -> None:
    """Check what the user has given.

    Raises:
        PipelineError: a number is below 1.
    """
    for option in ("batch_tokens", "ahead"):
        number = getattr(arguments, option)
        if number is not None and number < 1:
            raise PipelineError(f"--{option.replace('_', '-')}: {number} must be at least 1")


def lines_ahead(arguments: argparse.Namespace, piped: int = _NEAR) -> int:
    """How many lines to read before the first of them is answered: a person waits for each answer, a file for none.

    Args:
        arguments: with --ahead and --input.
        piped: the default from a pipe, whose writer may wait.
    """
    if arguments.ahead is not None:
        return int(arguments.ahead)
    if arguments.input is None and sys.stdin.isatty():
        return 1
    return FAR if _is_regular(arguments.input) else piped


def _is_regular(file: Path | None) -> bool:
    """Whether a file, or standard input, is a regular file, also where a shell has redirected it."""
    with suppress(OSError):  # a standard input of Python's, which no file is opened for
        return stat.S_ISREG(os.stat(sys.stdin.fileno() if file is None else file).st_mode)
    return False
