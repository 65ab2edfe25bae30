"""Digests of a folder's files, kept beside them, by which a byte that has changed since is noticed.

A folder that the pipeline writes holds `SHA256SUMS` in the format of `sha256sum`: `sha256sum -c SHA256SUMS` checks it
without this program. A file of which it has no digest, such as one added by hand, is not checked.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.files import atomic_path, reading, write_text

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f]+)")
_CHECKED = set[tuple[str, str, int, int, int]]()
"""Files by digest, with their size, time and inode when they had it: a process reads a file for this purpose once."""


@contextmanager
def summed_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `path`, as by `atomic_path`, together with the digests of all its files.

    Raises:
        PipelineError: the disk is full, or the folder is not writable.
    """
    with atomic_path(path) as aside:
        aside.mkdir(parents=True)
        yield aside
        record(aside, [file.relative_to(aside).as_posix() for file in aside.rglob("*") if file.is_file()])


def record(folder: Path, names: Iterable[str]) -> None:
    """Write the digests of some files of a folder; those of others that the folder still has are kept."""
    kept = {name: digest for name, digest in _read(folder).items() if (folder / name).exists()}
    sums = kept | {name: file_digest(folder / name) for name in names}
    write_text(folder / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def is_recorded(path: Path) -> bool:
    """Whether a file exists and its folder has its digest."""
    return path.exists() and path.name in _read(path.parent)


def check(path: Path) -> None:
    """Check that a file has the digest that its folder has of it; without one, nothing is checked.

    The file is read as a whole at the first check of a process.

    Raises:
        PipelineError: it has another digest, or it is absent or cannot be read, or the list of digests is damaged.
    """
    digest = _read(path.parent).get(path.name)
    if digest is not None:
        _check(path, digest)


def check_folder(folder: Path) -> None:
    """Check, as `check`, all files of which a folder, or folders within it, should have digests."""
    for name, digest in _read(folder).items():
        _check(folder / name, digest)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file (hexadecimal)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(path: Path, digest: str) -> None:
    with reading(path):
        found = os.stat(path)
        state = digest, os.path.abspath(path), found.st_size, found.st_mtime_ns, found.st_ino
        if state not in _CHECKED and file_digest(path) != digest:
            raise PipelineError(f"{path}: damaged: its SHA-256 is not the one in {SUMS}; {_remedy(path)}")
    _CHECKED.add(state)


def _read(folder: Path) -> dict[str, str]:
    """The digests of a folder by the names of its files; empty if it has none.

    Raises:
        PipelineError: a line is not a digest and a name, or the file cannot be read.
    """
    path = folder / SUMS
    if not path.exists():
        return {}
    with reading(path):
        text = path.read_bytes().decode(errors="replace")
    if not text and os.listdir(folder) == [SUMS]:
        return {}  # nothing was written, such as the other libraries' models if a run has none
    lines = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
    found = {line[2]: line[1] for line in lines if line is not None}
    if None in lines:
        raise PipelineError(f"{path}: damaged: a line is not a digest and a name; {_remedy(folder)}")
    return found


def _remedy(path: Path) -> str:
    return f"remove {path} and run `dvc repro` to produce it again"
