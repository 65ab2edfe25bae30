"""The `corpus` stage: read a source, filter it, write one sentence per line."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from pipeline.checksums import summed_folder
from pipeline.files import remove, write_json
from pipeline.layout import SYNTHETIC
from pipeline.sources.filtering import CorpusFilter
from pipeline.sources.inputs import check_inputs
from pipeline.sources.noise import write_synthetic
from pipeline.sources.settings import CorpusSettings
from pipeline.sources.splits import Entry, Splits


def build_corpus(settings: CorpusSettings, out: Path, report: Path) -> dict[str, dict[str, int]]:
    """Write `out/{train,validation,test}.{source,target}` (UTF-8, one sentence per line) and the counts.

    Further references of a split go to `target2`, `target3`, …, and pairs with synthetic errors, if `settings.noise`
    asks for them, to `synthetic.{source,target}`. `report` is JSON: for each split the pairs read, dropped by each
    filter and kept. The folder `out` is written completely or not at all.

    Returns:
        What `report` contains.

    Raises:
        PipelineError: the source cannot be read, or a split is empty after filtering.
    """
    with summed_folder(out) as folder:
        corpus_filter = CorpusFilter(settings.filters, folder)
        splits = read_splits(settings)
        for split in corpus_filter.order:
            _write_split(folder, split, corpus_filter.apply(split, splits[split], getattr(settings.keep, split)))
        counts = corpus_filter.report()
        if settings.noise is not None:
            counts[SYNTHETIC] = write_synthetic(settings.noise, folder)
        remove(report)  # it describes what is replaced now
    write_json(report, counts)
    return counts


def read_splits(settings: CorpusSettings) -> Splits:
    """Read the pairs of train, validation and test from the chosen source; each may be iterated once.

    Raises:
        PipelineError: a file of the user is missing, or the source cannot be read.
    """
    check_inputs(settings)
    splits: Splits = settings.reader.read(settings.block, (settings.source_language, settings.target_language))
    return splits


def _write_split(folder: Path, split: str, entries: Iterator[Entry]) -> None:
    first = next(entries, ())  # empty: `report` explains why the split is
    sides = ["source", "target", *(f"target{number}" for number in range(2, len(first)))]
    with ExitStack() as stack:
        files = [stack.enter_context(open(folder / f"{split}.{side}", "w", encoding="utf-8", newline="\n"))
                 for side in sides[:len(first)]]
        for entry in chain([first], entries):
            for file, text in zip(files, entry, strict=True):
                file.write(text + "\n")
