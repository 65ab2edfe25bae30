"""Sentence pairs in: readers, one per file and all with the same signature, filters, synthetic errors and splits."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pipeline.sources import files, home_assistant, hugging_face, po, tmx, ua_gec
from pipeline.sources.settings import CorpusSettings
from pipeline.sources.splits import Entry, Pair, Splits

__all__ = ["SOURCES", "Entry", "Pair", "Splits", "read_splits"]


def _none(settings: CorpusSettings) -> Iterable[str]:
    """What comes from a package index is named by its hash in the settings."""
    return ()


class Source(NamedTuple):
    """What a kind of source is made of."""

    read: Callable[[CorpusSettings], Splits]
    """The pairs of every split."""
    inputs: Callable[[CorpusSettings], Iterable[str]] = _none
    """Paths of the user's own files that `read` reads; those that are missing too."""


SOURCES = {
    "home-assistant": Source(home_assistant.read),
    "ua-gec": Source(ua_gec.read),
    "files": Source(files.read_files, files.files_inputs),
    "tsv": Source(files.read_tsv, files.tsv_inputs),
    "po": Source(po.read, po.inputs),
    "tmx": Source(tmx.read, tmx.inputs),
    "huggingface": Source(hugging_face.read, hugging_face.inputs),
}


def read_splits(settings: CorpusSettings) -> Splits:
    """Read the pairs of train, validation and test from the chosen source; each may be iterated once."""
    return SOURCES[settings.source].read(settings)
