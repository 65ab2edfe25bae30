"""Plain text, line by line, from a file or from standard input."""

import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.lines import decode_lines, read_lines


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
            raise PipelineError(f"{name}: closed; redirect it, or name a file with --input")
        if path is not None and not path.is_fifo():  # which loses its text when a reader closes it
            path.open("rb").close()
    except OSError as error:
        raise PipelineError(f"{name}: cannot be read: {error.strerror}; check the path and the permissions") from None
    return decode_lines(sys.stdin.buffer, name) if path is None else read_lines(path)


def read_columns(lines: Iterator[str], name: str) -> Iterator[tuple[str, str]]:
    """The source and the prefix of every line; they are separated by a tab.

    Args:
        lines: with one tab or none.
        name: of their file, for error messages.

    Raises:
        PipelineError: a line has more tabs.
    """
    for number, line in enumerate(lines, start=1):
        source, *prefix = line.split("\t")
        if len(prefix) > 1:
            raise PipelineError(f"{name}:{number}: has {len(prefix)} tabs; with --prefix a line is a source, a tab and "
                                "the beginning of its translation")
        yield source, prefix[0] if prefix else ""
