"""Standard output and standard error that handle a closed pipe and a full disk in one place.

Python's own raise wherever a buffer happens to be full, the last time after the program has ended.
"""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr
from functools import partial
from typing import Any

from pipeline.errors import PipelineError


class Unread(BaseException):
    """Nobody reads the product any more, so the program ends, without an error."""


class _Descriptor(io.FileIO):
    """A file descriptor that fails once; later writes are discarded."""

    def __init__(self, descriptor: int, fail: Callable[[OSError], None]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._fail, self._failed = fail, False

    def write(self, data: Any) -> int:
        """Write all of some bytes: the system may take a part, and its callers do not look."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while len(rest) and not self._failed:
            try:
                written: int | None = super().write(rest)
                if written is None:  # a pipe that does not block, and is full
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                rest = rest[written:]
            except OSError as error:
                self._failed = True
                self._fail(error)
        return size


def standard_output(product: bool) -> AbstractContextManager[None]:
    """`sys.stdout`, flushed at the end.

    Args:
        product: whether the program's product is what is printed. If it prints messages only, it continues without a
            reader until its product is written.

    Raises:
        Unread: nobody reads the product any more.
        PipelineError: standard output is closed or cannot be written.
    """
    if sys.stdout is None:  # the next file to be opened would take its place
        raise PipelineError("standard output: is closed; write it to /dev/null if it does not matter")
    return _guarded("stdout", partial(_fail_to_write, product))


def standard_error() -> AbstractContextManager[None]:
    """`sys.stderr`, which takes messages only; without a reader, or where it is closed, they are discarded."""
    return _nowhere() if sys.stderr is None else _guarded("stderr", lambda error: None)


def _fail_to_write(product: bool, error: OSError) -> None:
    if not isinstance(error, BrokenPipeError):
        raise PipelineError(f"standard output: cannot be written: {error.strerror}; free some space or write elsewhere")
    if product:
        raise Unread


@contextmanager
def _nowhere() -> Iterator[None]:
    """A closed `sys.stderr` opened again: `print` takes standard output in its place, and libraries any other file."""
    with open(os.devnull, "w", encoding="utf-8", errors="backslashreplace") as nothing, redirect_stderr(nothing):
        yield


@contextmanager
def _guarded(name: str, fail: Callable[[OSError], None]) -> Iterator[None]:
    before = getattr(sys, name)
    try:
        descriptor = before.fileno()
    except (AttributeError, OSError):  # closed, or replaced by a notebook or a test
        yield
        return
    raw = _Descriptor(descriptor, fail)
    # Texts are written as bytes. A message with a name that the encoding lacks is shown, and ends nothing.
    errors = "backslashreplace" if before.errors == "strict" else before.errors
    guarded = io.TextIOWrapper(raw if before.write_through else io.BufferedWriter(raw), before.encoding, errors,
                               line_buffering=before.line_buffering, write_through=before.write_through)
    setattr(sys, name, guarded)
    try:
        yield
    finally:
        setattr(sys, name, before)
        guarded.flush()
