"""Files that are either whole or absent: every artifact is written aside and renamed into place."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError

_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM,
                 errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG}


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a path beside `path`; on success it is flushed to disk and renamed to `path`, on any error removed.

    The yielded path may be created as a file or as a folder (a folder replaces an existing one whole).

    Raises:
        PipelineError: the disk is full or the folder is not writable.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.aside")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove(aside)  # of a killed run whose process id came again
        yield aside
        if aside.is_dir():
            remove(path)
        else:
            with open(aside, "rb") as written:
                os.fsync(written.fileno())
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to tell
            remove(aside)
        if error.errno not in _CANNOT_WRITE:
            raise
        raise PipelineError(f"{path}: cannot be written: {error.strerror or error}; check the name, the free space and "
                            "the folder's permissions, then run the same command again") from error
    except BaseException:
        with suppress(OSError):
            remove(aside)
        raise


def remove(path: Path) -> None:
    """Remove a file or a folder; nothing happens if it is absent."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file atomically (UTF-8, line feeds as given)."""
    with atomic_path(path) as aside:
        aside.write_bytes(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically with stable key order and a final newline, so that equal content is equal bytes."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON.

    Raises:
        PipelineError: the file is absent or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"{path}: not found; run `dvc repro` to produce it") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: not valid JSON ({error}); remove it and run `dvc repro`") from None


def check_output(path: Path) -> None:
    """Insist that a file that the user names can be created, before the work that fills it: in a folder that exists.

    The pipeline makes its own folders; one that the user mistyped must not appear.

    Raises:
        PipelineError: the folder does not exist, or the path is a folder itself.
    """
    if path.is_dir():
        raise PipelineError(f"{path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise PipelineError(f"{path}: cannot be written: there is no folder {path.parent}; create it first (mkdir -p)")
