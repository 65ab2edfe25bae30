"""Where sentence pairs come from: one reader a file, all with the same signature."""

from collections.abc import Callable

from pipeline.corpus.settings import CorpusSettings
from pipeline.corpus.sources import files, home_assistant, hugging_face, po, tmx, ua_gec
from pipeline.corpus.sources.splits import SPLITS, Entry, Pair, Splits

__all__ = ["SPLITS", "Entry", "Pair", "Splits", "read_splits"]

READERS: dict[str, Callable[[CorpusSettings], Splits]] = {
    "home-assistant": home_assistant.read,
    "ua-gec": ua_gec.read,
    "files": files.read_files,
    "tsv": files.read_tsv,
    "po": po.read,
    "tmx": tmx.read,
    "huggingface": hugging_face.read,
}


def read_splits(settings: CorpusSettings) -> Splits:
    """Read the pairs of train, validation and test from the chosen source; each may be iterated once."""
    return READERS[settings.source](settings)
