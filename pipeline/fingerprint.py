"""Hashes of data and of code, by which a run finds out whether it may continue, and DVC whether it is to run again."""

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from pipeline.files import reading
from pipeline.imports import modules, with_imports

_PACKAGE = Path(__file__).parent
_COMPUTES = ("bleu.py", "compiled.py", "corpus/**/*.py", "count_model/**/*.py", "decoding/**/*.py", "families/**/*.py",
             "engine/**/*.py", "model/**/*.py", "training/**/*.py", "vocabulary.py")
"""The code of training and search. Code that writes files and reports is not among it: a repair there costs no run."""

_TRAINS = ("pipeline.bleu", "pipeline.corpus", "pipeline.count_model", "pipeline.families", "pipeline.model",
           "pipeline.training")
"""Of what a training imports, the code that decides its weights. The searches of a validation are not among it: they
find the same however they find it, to which the tests of equality hold them."""

_PIECE = 1 << 20


def digest(*parts: bytes) -> str:
    """The SHA-256 of several byte strings (hexadecimal), which differs if they are divided in another way."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def digest_files(paths: Iterable[Path]) -> str:
    """`digest` of the contents of files, read piece by piece.

    Raises:
        PipelineError: a file is absent or cannot be read.
    """
    found = hashlib.sha256()
    for path in paths:
        with reading(path), open(path, "rb") as file:
            found.update(path.stat().st_size.to_bytes(8, "little"))
            while piece := file.read(_PIECE):
                found.update(piece)
    return found.hexdigest()


def code_digest(*more: str, package: Path = _PACKAGE) -> str:
    """A hash of the names and contents of the source files of training and search.

    Args:
        more: files of the package that the run also depends on.
        package: the folder of the package.
    """
    files = sorted({path for pattern in (*_COMPUTES, *more) for path in package.glob(pattern)})
    return digest(*(part for path in files for part in (path.relative_to(package).as_posix().encode(),
                                                        path.read_bytes())))


def file_digests(first: Collection[str], within: tuple[str, ...]) -> dict[str, str]:
    """The SHA-256 (hexadecimal) of the source files of modules, and of all modules that these import, by their names.

    Args:
        first: modules of the package.
        within: names of modules and packages; files of others are left out.
    """
    return {name: hashlib.sha256(modules()[name].read_bytes()).hexdigest()
            for name in sorted(with_imports(first)) if any(name == one or name.startswith(f"{one}.") for one in within)}


def training_code(kind: str) -> dict[str, str]:
    """`file_digests` of the code that decides the weights of a family of a kind, without that of other kinds."""
    return file_digests(["pipeline.training.fit", f"pipeline.families.{kind}", f"pipeline.families.kinds.{kind}"],
                        _TRAINS)
