"""Plain text, line by line, from a file or from standard input."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.files import check_output
from pipeline.lines import decode_lines, is_packed, read_lines

_REMEDY = "redirect it, or name a file with --input"
"""For standard input, which has no path to check."""


def read_utf8(path: Path | None) -> Iterator[str]:
    """The lines of a text file or of standard input, by the rules of the corpus (`pipeline.lines`).

    Args:
        path: of a file; None: standard input.

    Raises:
        PipelineError: at once if the file cannot be opened, unless it is a named pipe; later if a line cannot be read
            or is not UTF-8.
    """
    name = str(path or "standard input")
    try:
        if path is None and sys.stdin is None:
            raise PipelineError(f"{name}: closed; {_REMEDY}")
        if path is not None and not path.is_fifo():  # which loses its text when a reader closes it
            path.open("rb").close()
    except OSError as error:
        raise PipelineError(f"{name}: cannot be read: {error.strerror}; check the path and the permissions") from None
    return _read_standard_input(sys.stdin.buffer, name) if path is None else read_lines(path)


def _read_standard_input(file: Iterable[bytes], name: str) -> Iterator[str]:
    try:
        yield from decode_lines(file, name)
    except OSError as error:  # such as of a descriptor that is open for writing only
        raise PipelineError(f"{name}: cannot be read: {error.strerror}; {_REMEDY}") from None


def check_text_output(output: Path, *inputs: Path | None) -> None:
    """`files.check_output` of a text file, which is written as it is.

    Raises:
        PipelineError: as of `check_output`, or the name is that of a compressed file.
    """
    check_output(output, *inputs)
    if is_packed(output):
        raise PipelineError(f"{output}: would not be compressed; choose a name without {output.suffix}")


def read_columns(lines: Iterator[str], name: str, form: str, optional: bool = False) -> Iterator[tuple[str, str]]:
    """The two columns of every line; they are separated by a tab.

    Args:
        lines: with one tab.
        name: of their file, for error messages.
        form: what a line should be, for error messages.
        optional: a line may have no tab; its second column is empty then.

    Raises:
        PipelineError: a line has more tabs, or none although it is not optional.
    """
    for number, line in enumerate(lines, start=1):
        first, *others = line.split("\t")
        if len(others) > 1 or not (others or optional):
            raise PipelineError(f"{name}:{number}: has {f'{len(others)} tabs' if others else 'no tab'}; {form}")
        yield first, others[0] if others else ""
