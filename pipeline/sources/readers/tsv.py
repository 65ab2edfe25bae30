"""One file per split with `source<TAB>target` on each line, plain, .gz or .zst."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.lines import read_lines
from pipeline.sources.splits import Languages, Pair, Splits


@dataclass(frozen=True)
class Settings:
    """The file of every split."""

    train: str
    validation: str
    test: str


def read(settings: Settings, languages: Languages) -> Splits:
    """Read the files lazily."""
    return {split: read_columns(Path(getattr(settings, split))) for split in SPLITS}


def inputs(settings: Settings) -> list[str]:
    """Return the file of every split."""
    return [getattr(settings, split) for split in SPLITS]


def read_columns(path: Path) -> Iterator[Pair]:
    """Yield the two columns of every line.

    Raises:
        PipelineError: the file cannot be read, is not UTF-8, or a line has not exactly one tab.
    """
    for number, line in enumerate(read_lines(path, progress=True), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise PipelineError(f"{path}:{number}: {len(columns)} column(s); each line must be source<TAB>target")
        yield columns[0], columns[1]
