"""Plain or gzip-compressed text: two aligned files a split, or one tab-separated file a split."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from pipeline.corpus.settings import CorpusSettings
from pipeline.corpus.sources.splits import SPLITS, Pair, Splits
from pipeline.errors import PipelineError
from pipeline.lines import read_lines


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


def read_aligned(source: Path, target: Path) -> Iterator[Pair]:
    """Yield line i of one file with line i of the other.

    Raises:
        PipelineError: a file cannot be read, is not UTF-8, or has another number of lines.
    """
    for left, right in zip_longest(read_lines(source), read_lines(target)):
        if left is None or right is None:
            counts = [sum(1 for _ in read_lines(path)) for path in (source, target)]
            raise PipelineError(f"{source} has {counts[0]} lines but {target} has {counts[1]}; "
                                "line i of one must translate line i of the other")
        yield left, right


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
