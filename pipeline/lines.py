"""Text line by line, under the same rules wherever it comes from."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.errors import PipelineError


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, plain or .gz, without their ends; the file is opened when the first line is asked for.

    Raises:
        PipelineError: the file cannot be read or decompressed, or is not UTF-8.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            yield from decode_lines(file, str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise PipelineError(f"{path}: cannot be decompressed ({error}); fetch the file again") from None
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}; check the path and the permissions") from None


def decode_lines(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield lines of UTF-8 without their ends and without the byte-order mark that some editors put first.

    Only a line feed ends a line (a carriage return before it goes too): `str.splitlines` also breaks at form
    feeds and U+2028, which occur inside sentences and would shift one side against the other.

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
