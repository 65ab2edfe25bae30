"""Files and folders that are whole or absent, and locks on what a run writes; docs/reliability.md has the promises.

Every artifact is written aside and renamed into place.
"""

import errno
import itertools
import json
import os
import re
import shutil
import socket
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError

_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EBUSY,
                 errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG}
_RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")
"""Set by whoever starts the processes of one run (Lightning, torchrun, Slurm): 0 in the first one, more in another."""
_WRITES = itertools.count()
_HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"
"""Of which this process's id is one; others may share the file system."""
_ASIDE = re.compile(rf"((\d{{1,9}})-\d+@{_HOST})(\.old)?\.aside")
"""Of a write: process, how many before it, and host."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a path beside `path`; on success it is flushed to disk and renamed to `path`, on any error removed.

    The yielded path may be created as a file or as a folder (a folder replaces an existing one whole). Flushed are the
    file, or all files and folders within the folder, and then the entry in the folder that holds `path`.

    A file is replaced by one rename. A folder cannot be: the old one is renamed aside, the new one to `path`, and then
    the old one is removed. A run that is killed leaves `path` as it was, or as it was to become; between the two
    renames both are beside it, hidden, and the next write to `path` begins by putting the old one back. It also removes
    what other killed writes to `path` on this host have left.

    Raises:
        PipelineError: the disk is full, the folder is not writable, or `path` names no entry of a folder.
    """
    aside = _beside(path, f"{os.getpid()}-{next(_WRITES)}@{_HOST}.aside")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_up(path)
        _settle(path, aside)  # of a killed run whose process id came again
        yield aside
        _flush(aside)
        if aside.is_dir() and os.path.lexists(path):
            os.rename(path, _old(aside))
        os.replace(aside, path)
        _sync(path.parent)
        with suppress(OSError):  # what of the old one cannot be removed stays hidden; the next write tries again
            _settle(path, aside)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to tell
            _settle(path, aside)
        if error.errno not in _CANNOT_WRITE:
            raise
        raise PipelineError(f"{path}: cannot be written: {error.strerror or error}; check the name, the free space and "
                            "the folder's permissions, then run the same command again") from error
    except BaseException:
        with suppress(OSError):
            _settle(path, aside)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other runs from writing `path`, a file or folder, until this one has; the end of the process ends it too.

    Of a run of several processes the first one has the lock for all of them: in the others nothing happens.

    Raises:
        PipelineError: another run has it, or there can be no lock.
    """
    if any(os.environ.get(name, "0") not in ("", "0") for name in _RANKS):
        yield
        return
    from filelock import FileLock, Timeout  # a tenth of a second, which translating does not need

    file = _beside(path, "lock")
    lock = FileLock(file, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
        file.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    except Timeout:
        raise PipelineError(f"{path}: another run{_holder(file)} is writing it; wait until it has ended, or stop it, "
                            "then run the same command again") from None
    except OSError as error:
        lock.release()
        raise PipelineError(f"{path}: cannot be locked: {error.strerror or error}; check the folder's permissions, and "
                            "that its file system has locks") from error
    try:
        yield
    finally:
        file.unlink(missing_ok=True)  # first: whoever waits for a lock that is let go finds that its file has gone
        lock.release()


def remove(path: Path) -> None:
    """Remove a file or a folder; nothing happens if it is absent."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _beside(path: Path, ending: str) -> Path:
    """A hidden name in the folder of `path`."""
    if path.name in ("", ".."):
        raise PipelineError(f"{path}: cannot be written: it names a folder from within; name an entry of a folder")
    return path.with_name(f".{path.name}.{ending}")


def _old(aside: Path) -> Path:
    """Where the folder that `aside` is to replace is kept meanwhile."""
    return aside.with_suffix(f".old{aside.suffix}")


def _clear_up(path: Path) -> None:
    """Settle the writes to `path` of processes of this host that are no more."""
    prefix = f".{path.name}."
    for name in os.listdir(path.parent):
        left = _ASIDE.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if left is not None and not is_alive(int(left[2])):
            with suppress(OSError):  # what cannot be removed is in nobody's way
                _settle(path, _beside(path, f"{left[1]}.aside"))


def _settle(path: Path, aside: Path) -> None:
    """End a write for good: nothing of it stays beside `path`, where the old folder is if there is nothing else."""
    old = _old(aside)
    if os.path.lexists(old) and not os.path.lexists(path):
        os.rename(old, path)
    remove(aside)
    remove(old)


def is_alive(process: int) -> bool:
    """Whether a process of this host has not ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def _holder(file: Path) -> str:
    """Who has a lock, as far as is known: it is written just after it is taken."""
    with suppress(OSError):
        if holder := file.read_text(encoding="utf-8"):
            return f" ({holder})"
    return ""


def _flush(path: Path) -> None:
    """Have a file, or all that is in a folder, written to disk."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))
    if not path.is_dir():
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def check_output(output: Path, *inputs: Path | None) -> None:
    """Insist, before the work that fills it, that a file that the user names can be created, or replaced by a file.

    The pipeline makes its own folders; one that the user mistyped must not appear.

    Args:
        output: to be written.
        inputs: files that are read; None: standard input.

    Raises:
        PipelineError: its folder does not exist, or it is a folder, a device or the like, or one of the inputs.
    """
    if os.path.isdir(output):
        raise PipelineError(f"{output}: is a folder; name a file in it")
    if not os.path.isdir(output.parent):
        raise PipelineError(f"{output}: cannot be written: there is no folder {output.parent}; create it first "
                            "(mkdir -p)")
    if os.path.exists(output) and not os.path.isfile(output):
        raise PipelineError(f"{output}: is not a regular file, and would be replaced by one; name another")
    if any(path and os.path.exists(path) and os.path.exists(output) and output.samefile(path) for path in inputs):
        raise PipelineError(f"{output}: is what is read; name another file")
