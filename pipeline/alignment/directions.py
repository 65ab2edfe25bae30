"""Corpora aligned in one direction or in both, with links from source to target whatever the direction."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.fast_align import AlignmentModel, train
from pipeline.alignment.group import ALONE, Group
from pipeline.alignment.links import Links
from pipeline.alignment.progress import IterationCallback
from pipeline.alignment.settings import AlignmentSettings, Method
from pipeline.alignment.symmetrise import symmetrise
from pipeline.files import reserve

_BLOCK = 1 << 20
"""Words whose links are joined at once."""


class Direction(NamedTuple):
    """The result of one direction."""

    model: AlignmentModel
    """Of the reverse one of two directions without its table."""
    heads: list[NDArray[np.int32]]
    """What `AlignmentModel.align` returns for each corpus, mapped from temporary files; in the reverse direction, per
    source word."""


def align_direction(bitexts: Sequence[Bitext], settings: AlignmentSettings, threads: int, folder: Path,
                    callback: IterationCallback | None, reverse: bool = False, group: Group = ALONE) -> Direction:
    """Align each target word with at most one source word or, in reverse, each source word with at most one target one.

    The corpora are trained as one. `folder` is for temporary files, which have no names.
    """
    pairs = [bitext.swapped() for bitext in bitexts] if reverse else list(bitexts)
    model = train(pairs, settings, threads=threads, callback=callback, group=group)
    return Direction(model, [model.align(bitext, threads=threads, links=on_disk(len(bitext.target.ids), folder),
                                         group=group) for bitext in pairs])


def align_both(bitexts: Sequence[Bitext], settings: AlignmentSettings, threads: int, folder: Path,
               callbacks: Sequence[IterationCallback | None], group: Group = ALONE) -> tuple[Direction, Direction]:
    """Align forward and in reverse, one direction after the other: only one table is in memory."""
    show_forward, show_reverse = callbacks
    reverse = align_direction(bitexts, settings, threads, folder, show_reverse, reverse=True, group=group)
    reverse = reverse._replace(model=reverse.model.without_table())
    return align_direction(bitexts, settings, threads, folder, show_forward, group=group), reverse


def links_of(bitext: Bitext, forward: NDArray[np.int32] | None, reverse: NDArray[np.int32] | None,
             method: Method) -> Iterator[Links]:
    """Yield the links of consecutive pairs, of one direction (the other one is None) or joined, from their heads."""
    for first, last in bitext.cuts(_BLOCK):
        part = bitext.part(first, last)
        there = None if forward is None else Links.from_heads(part, _of_pairs(forward, bitext, first, last))
        back = None if reverse is None else Links.from_heads(
            part.swapped(), _of_pairs(reverse, bitext.swapped(), first, last)).swapped()
        if there is not None and back is not None:
            yield symmetrise(there, back, method)
        else:
            yield there or back  # type: ignore[misc]  # one of them is there


def _of_pairs(heads: NDArray[np.int32], bitext: Bitext, first: int, last: int) -> NDArray[np.int32]:
    return heads[bitext.target.offsets[first]:bitext.target.offsets[last]]


def on_disk(numbers: int, folder: Path) -> NDArray[np.int32]:
    """An array of a temporary file, which vanishes with it.

    Raises:
        OSError: the disk is full.
    """
    with TemporaryFile(dir=folder) as file:
        reserve(file, max(1, numbers) * 4, folder)
        return np.asarray(np.memmap(file, np.int32, "r+"))[:numbers]
