"""A packed decoder with a part of its vocabulary, for one sentence: columns are copied, nothing is rounded again."""

import copy
from typing import Any

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.packing import aligned
from pipeline.engine.packs import Packs
from pipeline.engine.reading import COLUMNS, TOGETHER, Ints, Packed, Panels, Screen


def with_vocabulary(packs: Packs, ids: Ints) -> Packs:
    """Packs whose decoder has only the words `ids` (n,), numbered from 0."""
    for shared in ("plain", "encoder", "source", "visible"):
        getattr(packs, shared)  # makes what does not depend on the vocabulary once, for all sentences
    short = copy.copy(packs)
    vars(short)["decoder"] = packs.decoder and _decoder(packs.decoder, ids)
    return short


def _decoder(packed: Packed, ids: Ints) -> Packed:
    D, screen = packed.positions.shape[1], packed.screen
    if len(screen.scale):
        # A panel's bounds are the highest of the panels that its words come from.
        first = np.arange(0, len(ids), COLUMNS)
        lengths, lost = (np.maximum.reduceat(bounds[ids // COLUMNS], first) for bounds in (screen.lengths, screen.lost))
        screen = Screen(_columns(screen.panels, D, ids), screen.scale[ids], lengths, lost)
    return packed._replace(embeddings=packed.embeddings[ids], outputs=_columns(packed.outputs, D, ids),
                           output_scale=packed.output_scale[ids], output_bias=packed.output_bias[ids], screen=screen)


def _columns(panels: Panels, D: int, ids: Ints) -> Any:
    """The columns `ids` of a matrix (D, V) in panels, in panels."""
    packed = panels.view(np.uint32) if panels.dtype == np.uint8 else panels  # four neighbouring bytes at a time
    rows = D // TOGETHER if panels.dtype == np.uint8 else D
    count = -(-len(ids) // COLUMNS)
    out = aligned(count * rows * COLUMNS, packed.dtype)
    _take(packed.reshape(-1, rows, COLUMNS), ids, out.reshape(count, rows, COLUMNS))
    return out.view(panels.dtype)


@njit(cache=True, nogil=True)
def _take(panels: Any, ids: Ints, out: Any) -> None:
    """Copy the columns `ids` of panels (P, K, 32) into the first columns of others."""
    for n in range(len(ids)):
        panel, column = divmod(ids[n], COLUMNS)
        to, place = divmod(n, COLUMNS)
        for k in range(panels.shape[1]):
            out[to, k, place] = panels[panel, k, column]
    out[-1, :, len(ids) - (len(out) - 1) * COLUMNS:] = 0
