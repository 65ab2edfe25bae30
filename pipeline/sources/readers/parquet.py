"""Parquet files, one per split, read in batches of rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pipeline.errors import PipelineError
from pipeline.extras import missing
from pipeline.layout import SPLITS
from pipeline.sources.readers.huggingface import pairs_of_rows
from pipeline.sources.splits import Languages, Splits

_ROWS = 8192  # in memory at once


@dataclass(frozen=True)
class Settings:
    """The file of every split."""

    train: str
    validation: str
    test: str
    field: str | None = None
    """Column with a structure from language to text; null: each language is a column of its own. Corrections, of one
    language, are texts `source` and `target`."""


def read(settings: Settings, languages: Languages) -> Splits:
    """Read the files lazily.

    Raises:
        PipelineError: `pyarrow` is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise missing("pyarrow", "corpus.source parquet") from None
    return {split: pairs_of_rows(_rows(Path(getattr(settings, split))), getattr(settings, split), settings.field,
                                 "parquet", languages, references=split == "test") for split in SPLITS}


def inputs(settings: Settings) -> list[str]:
    """Return the file of every split."""
    return [getattr(settings, split) for split in SPLITS]


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        # None: unless standard error is a terminal.
        with parquet.ParquetFile(path) as file, tqdm(total=file.metadata.num_rows, desc=path.name, unit=" pairs",
                                                     disable=None) as bar:
            for batch in file.iter_batches(_ROWS):
                yield from batch.to_pylist()
                bar.update(len(batch))
    except (OSError, ValueError, OverflowError, pyarrow.ArrowException) as error:  # also text that is not UTF-8
        reason = " ".join(str(error).split())
        raise PipelineError(f"{path}: cannot be read as Parquet ({reason}); check the path, or write the file "
                            "again") from None
