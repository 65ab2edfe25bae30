"""What an unfinished run must find as it was to go on: hashes of what it reads, and of the code that computes."""

import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).parent
_COMPUTES = ("compiled.py", "corpus/**/*.py", "count_model/**/*.py", "decoding/**/*.py", "families/**/*.py",
             "engine/**/*.py", "model/**/*.py", "training/**/*.py", "vocabulary.py")
"""What training and search are made of. What writes files and reports is not among it: a repair there costs no run."""


def digest(*parts: bytes) -> str:
    """One hash of several byte strings, told apart."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def code_digest(*more: str, package: Path = _PACKAGE) -> str:
    """A hash of the names and contents of the files that training and search are made of.

    Args:
        more: files of the package that the run also depends on.
        package: the folder of the package.
    """
    files = sorted({path for pattern in (*_COMPUTES, *more) for path in package.glob(pattern)})
    return digest(*(part for path in files for part in (path.relative_to(package).as_posix().encode(),
                                                        path.read_bytes())))
