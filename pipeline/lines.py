"""Reads text line by line, by the same rules for all sources."""

import gzip
import io
import os
import re
import sys
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, Literal

from pipeline.errors import PipelineError
from pipeline.extras import missing

_PACKED = 1 << 12  # compressed bytes read at once, which may stand for thirty thousand times as many
_WATCHED = 1 << 17  # bytes between two moves of a bar
_LONGEST = 1 << 24
"""Bytes of a line in a compressed file, which can hold a line that fits into no memory."""

UnicodeForm = Literal["NFC", "NFKC", "none"]

# White space of any kind, control characters, and lone surrogates, which no UTF-8 file can hold.
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def read_lines(path: Path, progress: bool = False) -> Iterator[str]:
    """Yield the lines of a file, plain, .gz or .zst, without their line ends; the file is opened at the first line.

    `progress` shows on a terminal how much of the file has been read.

    Raises:
        PipelineError: the file cannot be read or decompressed, is not UTF-8, or hides an endless line by compression.
    """
    try:
        with _open(path, progress and sys.stderr.isatty()) as file:
            yield from decode_lines(file, str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise PipelineError(f"{path}: cannot be decompressed ({error}); fetch the file again") from None
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}; check the path and the permissions") from None


@contextmanager
def _open(path: Path, progress: bool) -> Iterator[Iterable[bytes]]:
    with io.BufferedReader(_Watched(path), _WATCHED) if progress else open(path, "rb") as file:
        yield _UNPACK[path.suffix](file, path) if is_packed(path) else file


class _Watched(io.FileIO):
    """A file of which a bar shows how many bytes have been read."""

    def __init__(self, path: Path) -> None:
        from tqdm import tqdm

        super().__init__(path)
        self._bar = tqdm(total=os.fstat(self.fileno()).st_size or None, desc=path.name, unit="B", unit_scale=True,
                         file=sys.stderr)

    def readinto(self, buffer: Any, /) -> int | None:
        count = super().readinto(buffer)
        self._bar.update(count or 0)
        return count

    def close(self) -> None:
        if not self.closed:
            self._bar.close()
        super().close()


def _bounded(line: bytes, path: Path) -> bytes:
    if len(line) > _LONGEST:
        raise PipelineError(f"{path}: has a line of more than {_LONGEST >> 20} MiB; is it text? Write one sentence "
                            "per line")
    return line


def _unpack_gzip(file: IO[bytes], path: Path) -> Iterator[bytes]:
    with gzip.open(file, "rb") as unpacked:
        for line in iter(partial(unpacked.readline, _LONGEST + 1), b""):
            yield _bounded(line, path)


def _unpack_zstandard(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield lines; the library's own readers take a truncated file for a complete one."""
    try:
        import zstandard
    except ImportError:
        raise missing("zstandard", str(path)) from None
    frame, line = None, b""
    while packed := file.read(_PACKED):
        while packed:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            try:
                *lines, line = (line + frame.decompress(packed)).split(b"\n")
            except zstandard.ZstdError as error:
                raise EOFError(error) from None
            yield from (_bounded(one, path) + b"\n" for one in lines)
            _bounded(line, path)
            packed = frame.unused_data
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("it ends within a frame")
    if line:
        yield line


_UNPACK = {".gz": _unpack_gzip, ".zst": _unpack_zstandard}
"""Yields the lines of an opened file, by the ending of its name."""


def is_packed(path: Path) -> bool:
    """Whether `read_lines` takes a file of this name for a compressed one.

    >>> is_packed(Path("train.en.zst")), is_packed(Path("train.en"))
    (True, False)
    """
    return path.suffix in _UNPACK


def read_aligned(source: Path, target: Path, progress: bool = False) -> Iterator[tuple[str, str]]:
    """Yield line i of one file with line i of the other; `progress` is that of the source (`read_lines`).

    Raises:
        PipelineError: a file cannot be read or is not UTF-8, or the numbers of lines differ.
    """
    for left, right in zip_longest(read_lines(source, progress), read_lines(target)):
        if left is None or right is None:
            counts = [sum(1 for _ in read_lines(path)) for path in (source, target)]
            raise PipelineError(f"{source} has {counts[0]} lines but {target} has {counts[1]}; "
                                "line i of one must translate line i of the other")
        yield left, right


def decode_lines(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield lines of UTF-8 without their line ends and without the byte-order mark that some editors put first.

    Only a line feed ends a line (a carriage return before it is removed too): `str.splitlines` also breaks at form
    feeds and U+2028, which occur within sentences and would shift one side against the other.

    Args:
        file: opened in binary mode, such as `sys.stdin.buffer`.
        name: for the error message.

    Raises:
        PipelineError: a line is not UTF-8, when it is reached.

    >>> list(decode_lines([b"\\xef\\xbb\\xbfone\\r\\n", b"two"], "standard input"))
    ['one', 'two']
    """
    for number, line in enumerate(file, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise PipelineError(f"{name}:{number}: invalid UTF-8 at byte {error.start + 1} of the line; convert the "
                                "text to UTF-8 first (iconv -t UTF-8)") from None
        yield text.removesuffix("\n").removesuffix("\r")


def normalise(text: str, unicode: UnicodeForm = "NFC") -> str:
    """Bring a sentence into one Unicode form (`unicode`: NFC, NFKC or none) on one line with single spaces.

    >>> normalise(" two\\nlines ")
    'two lines'
    """
    if unicode != "none":
        text = unicodedata.normalize(unicode, text)
    if not text.isprintable():  # printable text has no blank but the space
        text = _BLANKS.sub(" ", text)
    return " ".join(text.split())
