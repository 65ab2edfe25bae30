"""The `corpus` stage: read a source, filter it, write one sentence a line."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from pipeline.corpus.filtering import CorpusFilter
from pipeline.corpus.settings import CorpusSettings
from pipeline.corpus.sources import Pair, read_splits
from pipeline.files import atomic_path, write_json


def build_corpus(settings: CorpusSettings, out: Path, report: Path) -> None:
    """Write `out/{train,validation,test}.{source,target}` (UTF-8, one sentence a line) and the counts.

    `report` is JSON: for each split the pairs read, dropped by each filter and kept. The folder `out` appears
    whole or not at all.

    Raises:
        PipelineError: the source cannot be read, or a split is empty after filtering.
    """
    corpus_filter = CorpusFilter(settings.filters)
    with atomic_path(out) as folder:
        folder.mkdir()
        splits = read_splits(settings)
        for split in corpus_filter.order:
            kept = corpus_filter.apply(split, splits[split])
            _write_split(folder, split, islice(kept, getattr(settings.keep, split)))
        counts = corpus_filter.report()
    write_json(report, counts)


def _write_split(folder: Path, split: str, pairs: Iterable[Pair]) -> None:
    with (open(folder / f"{split}.source", "w", encoding="utf-8", newline="\n") as sources,
          open(folder / f"{split}.target", "w", encoding="utf-8", newline="\n") as targets):
        for source, target in pairs:
            sources.write(source + "\n")
            targets.write(target + "\n")
