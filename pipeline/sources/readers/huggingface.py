"""Any parallel data set that the `datasets` library loads."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pipeline.errors import PipelineError
from pipeline.extras import missing
from pipeline.layout import SPLITS
from pipeline.sources.splits import Entry, Languages, Splits


@dataclass(frozen=True)
class Settings:
    """Which data set, and where its texts are."""

    name: str
    """Name on the hub or a local folder."""
    config: str | None = None
    """Configuration of the data set, for example `de-en`."""
    revision: str | None = None
    """Commit of the data set; name one to make the run repeatable."""
    train: str = "train"
    """Name of the data set's split to train on."""
    validation: str = "validation"
    """Name of the data set's split to validate on."""
    test: str = "test"
    """Name of the data set's split to test on."""
    field: str | None = "translation"
    """Column with a dictionary from language to text; null or, in a preset, where null is the default, an empty name:
    each language is a column of its own. Corrections, of one language, are texts `source` and `target`."""


def read(settings: Settings, languages: Languages) -> Splits:
    """Load the three splits; their rows stay on disk and are read lazily.

    Raises:
        PipelineError: `datasets` is not installed, or cannot load the data set (no network, no such name, a file that
            is damaged).
    """
    try:
        import datasets
    except ImportError:
        raise missing("datasets", "corpus.source huggingface") from None
    splits = {}
    for split in SPLITS:
        name = getattr(settings, split)
        try:
            rows = datasets.load_dataset(settings.name, settings.config, split=name, revision=settings.revision)
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:  # the base classes of its errors
            unspecific = type(error) is datasets.exceptions.DatasetGenerationError  # the cause has the reason
            reason = " ".join(str(error.__cause__ if unspecific else error).split())
            raise PipelineError(f"params.yaml: corpus.huggingface: split '{name}' of {settings.name} cannot be "
                                f"loaded ({reason}); check the names, the files and the network") from error
        shown = tqdm(rows, desc=name, unit=" pairs", disable=None)  # None: unless standard error is a terminal
        splits[split] = pairs_of_rows(shown, settings.name, settings.field, "huggingface", languages,
                                      references=split == "test")
    return splits


def inputs(settings: Settings) -> list[str]:
    """Return the files of a local folder, without hidden ones, which `datasets` ignores; none of a name on the hub."""
    folder = Path(settings.name)
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return [str(folder / path) for path in sorted(files) if not any(part.startswith(".") for part in path.parts)]


def pairs_of_rows(rows: Iterable[Mapping[str, Any]], name: str, field: str | None, block: str,
                  languages: Languages, references: bool) -> Iterator[Entry]:
    """Yield the texts of rows, which are columns by name; `name` of the data and `block` of params.yaml are for errors.

    If both languages are one (corrections), the texts are `source` and `target`. With `references` those of the columns
    `reference2`, `reference3`, … follow, as far as there are such columns.

    Raises:
        PipelineError: a row lacks a language, or has something else than text in it.
    """
    source, target = languages if len(set(languages)) == 2 else ("source", "target")
    for number, row in enumerate(rows, start=1):
        further = takewhile(row.__contains__, map("reference{}".format, count(2))) if references else ()
        try:
            texts = row[field] if field else row
            entry = {source: texts[source], target: texts[target], **{column: row[column] for column in further}}
        except (KeyError, TypeError):
            raise PipelineError(f"{name}: row {number} has the columns {', '.join(row)} but no '{source}' and "
                                f"'{target}'; set the languages and corpus.{block}.field to match") from None
        for column, text in entry.items():
            if not isinstance(text, str | None):
                raise PipelineError(f"{name}: row {number} has {type(text).__name__} instead of text in "
                                    f"'{column}'; set the languages and corpus.{block}.field to match")
        yield tuple(text or "" for text in entry.values())  # the filters count a missing text as empty
