"""Fingerprints of the user's own files that the corpus is made of: when one of them changes, so does the corpus."""

from pathlib import Path
from typing import Any

from pipeline.sources import SOURCES
from pipeline.sources.settings import CorpusSettings
from pipeline.sources.wheel import sha256


def describe_inputs(settings: CorpusSettings) -> dict[str, Any]:
    """List the files that the chosen source reads: path as the settings give it, size in bytes and SHA-256.

    The order is that of the settings, or of the paths where a pattern finds them. What cannot be read has neither size
    nor hash: to report that is for the stage that reads it. Sources that read none of the user's files have an empty
    list.
    """
    return {"source": settings.source,
            "files": [_describe(path) for path in dict.fromkeys(SOURCES[settings.source].inputs(settings))]}


def _describe(path: str) -> dict[str, Any]:
    try:
        return {"path": path, "size": Path(path).stat().st_size, "sha256": sha256(Path(path))}
    except OSError:
        return {"path": path, "size": None, "sha256": None}
