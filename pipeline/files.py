"""Files and folders that are complete or absent, and locks on what a run writes; docs/reliability.md has the promises.

Every artifact is written under a hidden name and renamed into place.
"""

import errno
import itertools
import json
import os
import re
import shutil
import socket
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from pipeline.errors import PipelineError

_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EBUSY,
                 errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG}
_RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")
"""Set by whoever starts the processes of one run (Lightning, torchrun, Slurm): 0 in the first one, else more."""
_WRITES = itertools.count()
_HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"
"""The host, because a process id is unique on its host only; other hosts may share the file system."""
_ASIDE = re.compile(rf"((\d{{1,9}})-\d+@{_HOST})(\.old)?\.aside")
"""Hidden names of a write: its process, how many writes that process began before it, and its host."""
_HIDDEN = re.compile(r"\A\.(.+)\.\d+-\d+@[0-9a-f]{8}\.aside\Z")
"""The hidden name of a file or folder that any process is writing."""
Writing = Callable[[Path], AbstractContextManager[Path]]
"""`atomic_path` or `replacing`."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a path next to `path`; on success it is flushed to disk and renamed to `path`, on any error removed.

    The yielded path may be created as a file or as a folder, which replaces an existing folder. The file, or all files
    and folders within the folder, are flushed, and then the entry in the folder that holds `path`.

    A file is replaced by one rename. A folder cannot be: the old one is renamed aside, the new one to `path`, and then
    the old one is removed. A killed run leaves either the old or the new contents at `path`; if it is killed between
    the two renames, both have hidden names, and the next write to `path` begins by putting the old one back. It also
    removes what other killed writes to `path` on this host have left.

    Raises:
        PipelineError: the disk is full, the folder is not writable, or `path` names no entry of a folder.
    """
    aside = _beside(path, f"{os.getpid()}-{next(_WRITES)}@{_HOST}.aside")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_up(path)
        _settle(path, aside)  # of a killed run that had the same process id
        yield aside
        _flush(aside)
        if aside.is_dir() and os.path.lexists(path):
            os.rename(path, _old(aside))
        os.replace(aside, path)
        _sync(path.parent)
        with suppress(OSError):  # parts of the old folder that cannot be removed stay hidden until the next write
            _settle(path, aside)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to report
            _settle(path, aside)
        if error.errno not in _CANNOT_WRITE:
            raise
        raise PipelineError(f"{_shown(path)}: cannot be written: {error.strerror or error}; check the name, the free "
                            "space and the folder's permissions, then run the same command again") from error
    except BaseException:
        with suppress(OSError):
            _settle(path, aside)
        raise


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """`atomic_path` of a file that the user names: it keeps its permissions, and a link to it remains one."""
    path = output.resolve() if os.path.islink(output) else output
    with atomic_path(path) as aside:
        if path.exists():
            aside.touch()
            shutil.copymode(path, aside)
        yield aside


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock `path`, a file or folder, against writes of other runs; the end of the process also ends the lock.

    In a run of several processes, the first one has the lock for all of them; in the others nothing happens.

    Raises:
        PipelineError: another run has the lock, or the file system has no locks.
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
        if lock.is_locked:
            file.unlink(missing_ok=True)
        lock.release()
        raise PipelineError(f"{path}: cannot be locked: {error.strerror or error}; check the folder's permissions, the "
                            "free space, and that its file system has locks") from error
    try:
        yield
    finally:
        file.unlink(missing_ok=True)  # before the release, or it could be the lock file of the next run
        lock.release()


def _shown(path: Path) -> Path:
    """A path as the user will find it: within a folder that is being written, under the name that this will have."""
    return Path(*(_HIDDEN.sub(r"\1", part) for part in path.parts))


def reserve(file: IO[bytes], size: int, folder: Path) -> None:
    """Give a file of a folder a size, and the room on the disk for it.

    Without room, writing into a map of the file would end the process by a signal (SIGBUS) and without a word.

    Raises:
        OSError: the disk is full; its file name is the folder.
    """
    try:
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):  # not on macOS
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None


def remove(path: Path) -> None:
    """Remove a file or a folder; nothing happens if it is absent."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _beside(path: Path, ending: str) -> Path:
    """A hidden path in the folder of `path`."""
    if path.name in ("", ".."):
        raise PipelineError(f"{path}: cannot be written: it names a folder from within; name an entry of a folder")
    return path.with_name(f".{path.name}.{ending}")


def _old(aside: Path) -> Path:
    """The hidden path of the folder that `aside` replaces."""
    return aside.with_suffix(f".old{aside.suffix}")


def _clear_up(path: Path) -> None:
    """Settle the writes to `path` of processes of this host that have ended."""
    prefix = f".{path.name}."
    for name in os.listdir(path.parent):
        write = _ASIDE.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if write is not None and not is_alive(int(write[2])):
            with suppress(OSError):  # hidden files that cannot be removed do no harm
                _settle(path, _beside(path, f"{write[1]}.aside"))


def _settle(path: Path, aside: Path) -> None:
    """End a write: its hidden files are removed, and if `path` is absent, the old folder is put back there first."""
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
    """The process that has a lock, in brackets; empty if it has taken the lock but not yet written its name."""
    with suppress(OSError):
        if holder := file.read_text(encoding="utf-8"):
            return f" ({holder})"
    return ""


def _flush(path: Path) -> None:
    """Flush a file, or a folder and everything in it, to disk."""
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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Report an output of the pipeline that is absent or cannot be read.

    Raises:
        PipelineError: instead of the system's error within the context.
    """
    try:
        yield
    except FileNotFoundError:
        raise PipelineError(f"{path}: not found; run `dvc repro` to produce it") from None
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}; check its permissions, or remove it and run "
                            "`dvc repro` to produce it again") from None


def write_text(path: Path, text: str, by: Writing = atomic_path) -> None:
    """Write a text file atomically (UTF-8, line feeds as given), one that the user names by `replacing`."""
    with by(path) as aside:
        aside.write_bytes(text.encode("utf-8"))


def write_json(path: Path, value: Any, by: Writing = atomic_path) -> None:
    """Write JSON as `write_text` with stable key order and a final newline, so that equal content is equal bytes."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n", by)


def read_json(path: Path, remedy: str = "remove it and run `dvc repro`") -> Any:
    """Read JSON.

    Args:
        path: of the file.
        remedy: what the user can do about a file that is not JSON.

    Raises:
        PipelineError: the file is absent or is not JSON.
    """
    try:
        with reading(path):
            return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise PipelineError(f"{path}: not valid JSON ({error}); {remedy}") from None


def check_output(output: Path, *inputs: Path | None) -> None:
    """Check, before the work that fills it, that an output file named by the user can be created or replaced.

    The pipeline creates its own folders, but not one that the user may have mistyped.

    Args:
        output: file to write.
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
        raise PipelineError(f"{output}: is also the input; name another file")
