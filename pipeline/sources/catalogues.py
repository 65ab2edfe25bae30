"""Files that contain both languages but no splits (.po, .tmx): found by pattern, divided by hash."""

import glob
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from pipeline.layout import SPLITS
from pipeline.sources.splits import Pair, ShareSettings, Splits, assign_groups, assign_string


@dataclass(frozen=True)
class CatalogueSettings(ShareSettings):
    """Which files, and how they are divided into splits."""

    files: tuple[str, ...]
    """Paths or glob patterns (`locale/**/de.po`)."""
    split_by: Literal["file", "pair"] = "file"
    """`file`: all pairs of a file stay together; `pair`: all pairs of the same source string do."""


def split_catalogues(settings: CatalogueSettings, read_file: Callable[[str], Iterator[Pair]]) -> Splits:
    """Return the three splits as lazy iterators over the files that match.

    A file's split depends on its path as the patterns give it: keep them relative, so that every machine
    agrees. By pair, each split reads all files again, which keeps memory small.

    Raises:
        PipelineError: there are fewer than three files to divide by file.
    """
    paths = catalogue_inputs(settings)
    if settings.split_by == "file":
        split_of = assign_groups(paths, settings.validation_share, settings.test_share,
                                 "give more files or set split_by: pair")
        return {split: chain.from_iterable(map(read_file, [path for path in paths if split_of[path] == split]))
                for split in SPLITS}
    return {split: _select(chain.from_iterable(map(read_file, paths)), settings, split) for split in SPLITS}


def catalogue_inputs(settings: CatalogueSettings) -> list[str]:
    """Return each matching file once, ordered by path, and every pattern that matches none."""
    return sorted({path.replace("\\", "/") for pattern in settings.files
                   for path in glob.glob(pattern, recursive=True) or [pattern]})


def _select(pairs: Iterator[Pair], settings: CatalogueSettings, split: str) -> Iterator[Pair]:
    for pair in pairs:
        if assign_string(pair[0], settings.validation_share, settings.test_share) == split:
            yield pair
