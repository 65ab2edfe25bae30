"""Plain or gzip-compressed text: two aligned files a split, or one tab-separated file a split."""

from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.lines import read_aligned, read_lines
from pipeline.sources.settings import CorpusSettings
from pipeline.sources.splits import Pair, Splits


def read_files(settings: CorpusSettings) -> Splits:
    """Read two aligned files a split, lazily."""
    assert settings.files is not None  # CorpusSettings checks that the chosen source has its block
    return {split: read_aligned(*map(Path, getattr(settings.files, split))) for split in SPLITS}


def read_tsv(settings: CorpusSettings) -> Splits:
    """Read one tab-separated file a split, lazily."""
    assert settings.tsv is not None
    return {split: read_columns(Path(getattr(settings.tsv, split))) for split in SPLITS}


def files_inputs(settings: CorpusSettings) -> list[str]:
    """The two files of every split."""
    assert settings.files is not None
    return [path for split in SPLITS for path in getattr(settings.files, split)]


def tsv_inputs(settings: CorpusSettings) -> list[str]:
    """The file of every split."""
    assert settings.tsv is not None
    return [getattr(settings.tsv, split) for split in SPLITS]


def read_columns(path: Path) -> Iterator[Pair]:
    """Yield the two columns of every line.

    Raises:
        PipelineError: the file cannot be read, is not UTF-8, or a line has not exactly one tab.
    """
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise PipelineError(f"{path}:{number}: {len(columns)} column(s); "
                                "each line must be source<TAB>target")
        yield columns[0], columns[1]
