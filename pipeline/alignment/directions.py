"""Corpora aligned in one direction or in both, with links from source to target whatever the direction."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.fast_align import AlignmentModel, train
from pipeline.alignment.links import Links
from pipeline.alignment.progress import Progress
from pipeline.alignment.settings import AlignmentSettings


class Direction(NamedTuple):
    """What a direction found."""

    model: AlignmentModel
    heads: list[NDArray[np.int32]]
    """Of each corpus what `AlignmentModel.align` returns: in the reverse direction, of every source word."""
    links: list[Links]
    """The same as links."""


def align_direction(bitexts: Sequence[Bitext], settings: AlignmentSettings, threads: int, show: Progress, *,
                    reverse: bool = False) -> Direction:
    """Align corpora, trained as one: every target word to a source word or none, or in reverse the other way round."""
    pairs = [bitext.swapped() for bitext in bitexts] if reverse else list(bitexts)
    model = train(pairs, settings, threads=threads, progress=show)
    heads = [model.align(bitext, threads=threads) for bitext in pairs]
    links = [Links.from_heads(bitext, found) for bitext, found in zip(pairs, heads, strict=True)]
    return Direction(model, heads, [one.swapped() for one in links] if reverse else links)


def align_both(bitexts: Sequence[Bitext], settings: AlignmentSettings, threads: int,
               shows: Sequence[Progress]) -> tuple[Direction, Direction]:
    """Align forward and in reverse at once, each with half of the threads: their serial parts then overlap."""
    with ThreadPoolExecutor(min(threads, 2)) as pool:
        forward, reverse = pool.map(
            lambda way, show: align_direction(bitexts, settings, max(1, threads // 2), show, reverse=way),
            (False, True), shows)
    return forward, reverse


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
