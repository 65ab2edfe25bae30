"""numba's `njit` for all compiled functions of this package: for the widest vectors, and compiled once per user.

LLVM prefers vectors of 256 bits on processors that have 512, because earlier processors slowed down under wider ones.
Most compiled functions here are products of small matrices, which are faster with 512 bits.

numba keeps machine code next to the source file, and only a change of that file makes it compile again. Here functions
call those of other files, which are compiled into them, and a machine may have several clones of this package. So the
machine code of all copies with the same content is kept in one folder, named after that content, in the user's cache
(`$XDG_CACHE_HOME`), or in `$NUMBA_CACHE_DIR`.
"""

import atexit
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
from numba import njit as _njit
from numba.core import config as _config
from numba.core.caching import InTreeCacheLocator

__all__ = ["njit"]

config: Any = _config  # numba sets its names when it is imported
njit = _njit
if not TYPE_CHECKING:  # it keeps the type of numba's
    def njit(**options: Any) -> Any:
        """Without a function for callers in C: a tenth of compiling."""
        compile_later = _njit(no_cfunc_wrapper=True, **options)
        return lambda function: _keeping(compile_later(function))

_PACKAGE = Path(__file__).parent
_KEPT = 4
"""The number of states of the code whose machine code is kept, about 60 MB each."""
_DIGITS = 16
_FOLDERS = "numba-" + _DIGITS * "[0-9a-f]"
"""The folders of their machine code: others in the user's cache are not ours."""


def machine_code(package: Path) -> Path:
    """The folder of the machine code for the current state of the files of a package that machine code depends on.

    These are all files of folders with compiled functions, and the files that those functions' files import: constants
    become part of machine code, too.
    """
    sources = {path: path.read_bytes() for path in package.rglob("*.py")}
    compiled = [path for path, text in sources.items() if b"\nfrom pipeline.compiled import njit" in b"\n" + text]
    folders = {path.parent for path in compiled}
    imported = {package.parent.joinpath(*name.decode().split(".")).with_suffix(".py") for path in compiled
                for name in re.findall(rb"^from (pipeline[\w.]*) import", sources[path], re.MULTILINE)}
    state = hashlib.sha256()
    for path in sorted(path for path in sources if path.parent in folders or path in imported):
        state.update(b"\0".join((path.relative_to(package).as_posix().encode(), sources[path], b"")))
    cache = config.CACHE_DIR or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fast-nmt-decoding"
    return Path(cache) / f"numba-{state.hexdigest()[:_DIGITS]}"


def forget_old(folder: Path) -> None:
    """Before a new state gets its folder, remove the machine code of all others but those that were used last."""
    with suppress(OSError):  # another process removes it too, or this user may not
        if not folder.exists():
            for old in sorted(folder.parent.glob(_FOLDERS), key=lambda path: path.stat().st_mtime)[:1 - _KEPT]:
                shutil.rmtree(old)


def prepare(folder: Path) -> Path:
    """Make the folder of a state and return it, or, if it cannot be written, a temporary one for this process.

    numba's next choice, the folder of the source file, may have machine code of earlier versions of called functions.
    """
    forget_old(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            os.utime(folder)  # used now
            return folder
    except OSError:
        pass
    own = Path(tempfile.mkdtemp(prefix="numba-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def _keeping(dispatcher: Any) -> Any:
    """A compiled function whose machine code is saved if that is possible, by one process at a time.

    numba reads an index, chooses the name of a file, and writes both. It would let a search fail because the disk is
    full, and two processes that save at once may choose the same name for different code.
    """
    save = dispatcher._cache.save_overload

    def save_alone(*arguments: Any) -> None:
        with suppress(OSError), open(ByContent.folder / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            save(*arguments)

    dispatcher._cache.save_overload = save_alone
    return dispatcher


class ByContent(InTreeCacheLocator):
    """Tells numba the folder of the machine code of a function of this package."""

    folder = prepare(machine_code(_PACKAGE))

    def __init__(self, function: FunctionType, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(self.folder / Path(file).resolve().parent.relative_to(_PACKAGE.resolve()))

    @classmethod
    def from_function(cls, function: FunctionType, file: str) -> "ByContent | None":
        """The locator of a function; None if the file is not of this package."""
        of_package = Path(file).resolve().is_relative_to(_PACKAGE.resolve())
        locator: ByContent | None = super().from_function(function, file) if of_package else None
        return locator


if not config.CACHE_LOCATOR_CLASSES:  # not set by the user
    config.CACHE_LOCATOR_CLASSES = (f"{__name__}.ByContent,UserProvidedCacheLocator,InTreeCacheLocator,"
                                    "UserWideCacheLocator")
if config.CPU_NAME is None and config.CPU_FEATURES is None and "x86_64" in llvm.get_process_triple():  # neither set
    config.CPU_NAME = llvm.get_host_cpu_name()
    config.CPU_FEATURES = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
