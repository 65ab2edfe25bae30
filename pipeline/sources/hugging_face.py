"""Any parallel data set that the `datasets` library loads."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.settings import CorpusSettings, HuggingFaceSettings
from pipeline.sources.splits import Pair, Splits


def read(settings: CorpusSettings) -> Splits:
    """Load the three splits; their rows stay on disk and are read lazily.

    Raises:
        PipelineError: `datasets` is not installed, or cannot load the data set (no network, no such name).
    """
    block = settings.huggingface
    assert block is not None  # CorpusSettings checks that the chosen source has its block
    try:
        import datasets
    except ImportError:
        raise PipelineError("corpus.source huggingface needs datasets; "
                            "run pip install 'fast-nmt-decoding[huggingface]'") from None
    splits = {}
    for split in SPLITS:
        name = getattr(block, split)
        try:
            rows = datasets.load_dataset(block.name, block.config, split=name, revision=block.revision)
        except (OSError, ValueError) as error:  # what `datasets` derives its own errors from
            reason = " ".join(str(error).split())
            raise PipelineError(f"params.yaml: corpus.huggingface: split '{name}' of {block.name} cannot be "
                                f"loaded ({reason}); check the names and the network") from error
        splits[split] = _pairs(rows, block, settings.source_language, settings.target_language)
    return splits


def inputs(settings: CorpusSettings) -> list[str]:
    """The files of a local folder, without hidden ones, which `datasets` passes over; a name on the hub has none."""
    assert settings.huggingface is not None
    folder = Path(settings.huggingface.name)
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return [str(folder / path) for path in sorted(files) if not any(part.startswith(".") for part in path.parts)]


def _pairs(rows: Iterable[Mapping[str, Any]], block: HuggingFaceSettings, source_language: str,
           target_language: str) -> Iterator[Pair]:
    for number, row in enumerate(rows, start=1):
        try:
            texts = row[block.field] if block.field else row
            source, target = texts[source_language], texts[target_language]
        except (KeyError, TypeError):
            raise PipelineError(f"{block.name}: row {number} has the columns {', '.join(row)} but no "
                                f"'{source_language}' and '{target_language}'; set the languages and "
                                "corpus.huggingface.field to match") from None
        yield source or "", target or ""  # a missing text is for the filters to count
