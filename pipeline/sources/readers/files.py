"""Two aligned text files per split, one sentence per line, plain or gzip-compressed."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.layout import SPLITS
from pipeline.lines import read_aligned
from pipeline.sources.splits import Languages, Splits


@dataclass(frozen=True)
class Settings:
    """The source file and the target file of every split."""

    train: tuple[str, str]
    validation: tuple[str, str]
    test: tuple[str, str]


def read(settings: Settings, languages: Languages) -> Splits:
    """Read the files lazily."""
    return {split: read_aligned(*map(Path, getattr(settings, split))) for split in SPLITS}


def inputs(settings: Settings) -> list[str]:
    """Return the two files of every split."""
    return [path for split in SPLITS for path in getattr(settings, split)]
