"""Aligned text files per split, one sentence per line, plain, .gz or .zst; test may have several references."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.checks import Checked, Refused
from pipeline.layout import SPLITS
from pipeline.lines import read_aligned
from pipeline.sources.splits import Entry, Languages, Splits


@dataclass(frozen=True)
class Settings(Checked):
    """The source file and the target file of every split."""

    train: tuple[str, str]
    validation: tuple[str, str]
    test: tuple[str, ...]
    """Further files are further references."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.test) < 2:
            raise Refused(f"test has {len(self.test)} files; name a source file and at least one reference")


def read(settings: Settings, languages: Languages) -> Splits:
    """Read the files lazily."""
    return {split: _read(*map(Path, getattr(settings, split))) for split in SPLITS}


def inputs(settings: Settings) -> list[str]:
    """Return the files of every split."""
    return [path for split in SPLITS for path in getattr(settings, split)]


def _read(source: Path, *targets: Path) -> Iterator[Entry]:
    for pairs in zip(*(read_aligned(source, target, progress=target == targets[0]) for target in targets), strict=True):
        yield pairs[0][0], *(target for _, target in pairs)
