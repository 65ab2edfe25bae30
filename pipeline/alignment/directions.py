"""Corpora aligned in one direction or in both, with links from source to target whatever the direction."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.fast_align import AlignmentModel, train
from pipeline.alignment.links import Links
from pipeline.alignment.progress import IterationCallback
from pipeline.alignment.settings import AlignmentSettings


class Direction(NamedTuple):
    """The result of one direction."""

    model: AlignmentModel
    heads: list[NDArray[np.int32]]
    """What `AlignmentModel.align` returns for each corpus; in the reverse direction, per source word."""
    links: list[Links]
    """The same links from source to target."""


def align_direction(bitexts: Sequence[Bitext], settings: AlignmentSettings, threads: int,
                    callback: IterationCallback, reverse: bool = False) -> Direction:
    """Align each target word with at most one source word, or in reverse vice versa; the corpora are trained as one."""
    pairs = [bitext.swapped() for bitext in bitexts] if reverse else list(bitexts)
    model = train(pairs, settings, threads=threads, callback=callback)
    heads = [model.align(bitext, threads=threads) for bitext in pairs]
    links = [Links.from_heads(bitext, found) for bitext, found in zip(pairs, heads, strict=True)]
    return Direction(model, heads, [one.swapped() for one in links] if reverse else links)


def align_both(bitexts: Sequence[Bitext], settings: AlignmentSettings, threads: int,
               callbacks: Sequence[IterationCallback]) -> tuple[Direction, Direction]:
    """Align forward and in reverse in parallel, each with half of the threads, so that serial parts overlap."""
    with ThreadPoolExecutor(min(threads, 2)) as pool:
        align = partial(align_direction, bitexts, settings, max(1, threads // 2))
        forward, reverse = pool.map(align, callbacks, (False, True))
    return forward, reverse
