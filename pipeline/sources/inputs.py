"""The user's own files that the corpus is made of, and their fingerprints: if one changes, the corpus is read again."""

from pathlib import Path
from typing import Any

from pipeline.checksums import file_digest
from pipeline.errors import PipelineError
from pipeline.sources.settings import CorpusSettings


def describe_inputs(settings: CorpusSettings) -> dict[str, Any]:
    """List the files that the chosen source reads: path as in the settings, size in bytes and SHA-256.

    The order is that of the settings, or of the paths where a pattern finds them. An unreadable file has neither size
    nor hash: the stage that reads it reports that. What comes from a package index is not listed; the settings have its
    hash.
    """
    return {"source": settings.source, "files": [_describe(path) for path in _inputs(settings)]}


def check_inputs(settings: CorpusSettings) -> None:
    """Raise a PipelineError if a file that the chosen source reads is missing, or a pattern matches none."""
    for path in _inputs(settings):
        if not Path(path).exists():
            raise PipelineError(f"{path}: no such file in {Path.cwd()}, to which paths in params.yaml are relative; "
                                "correct the path or pattern")


def _inputs(settings: CorpusSettings) -> list[str]:
    return list(dict.fromkeys(settings.reader.inputs(settings.block) if hasattr(settings.reader, "inputs") else []))


def _describe(path: str) -> dict[str, Any]:
    try:
        return {"path": path, "size": Path(path).stat().st_size, "sha256": file_digest(Path(path))}
    except OSError:
        return {"path": path, "size": None, "sha256": None}
