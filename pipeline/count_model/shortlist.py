"""A shortlist: the target pieces that a translation of one source may need, by the count model.

The projection onto the vocabulary, and the search for the best pieces in it, are half of a small model's step. With a
tenth of the vocabulary most of that is saved; a translation that needs another piece must do without it.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pipeline.count_model.look_up import EMPTY_WORD
from pipeline.count_model.model import CountModel
from pipeline.errors import PipelineError
from pipeline.vocabulary import SPECIALS

Ints = NDArray[np.int64]


class Shortlist:
    """The candidates of all pieces of a source, its own pieces, those of unlinked words, and the most frequent ones."""

    def __init__(self, counts: CountModel, candidates: int, frequent: int = 50) -> None:
        """Args:
            counts: of the model's vocabulary.
            candidates: per source piece, those of the highest probability in all offsets together.
            frequent: target pieces that every shortlist has: those counted with most source pieces and offsets. The
                default was chosen on validation data: more bring no BLEU, but a beam search needs more pieces than it
                has beams, also for a source of a single rare piece.

        Raises:
            PipelineError: a number is negative.
        """
        if candidates < 0 or frequent < 0:
            raise PipelineError(f"shortlist: {candidates} candidates, {frequent} frequent pieces; must be 0 or more")
        V, (first, _, table) = counts.target_vocabulary, counts.lexicon
        entries = np.diff(table.starts[first])  # of every source piece, under all its offsets
        found, places = np.unique(np.repeat(np.arange(len(entries)), entries) * V + table.items.astype(np.int64),
                                  return_inverse=True)
        sources, items = np.divmod(found, V)
        order = np.lexsort((items, -np.bincount(places, table.probabilities, len(found)), sources))
        starts = np.searchsorted(sources, np.arange(len(entries) + 1))
        kept = order[np.arange(len(found)) - starts[sources] < candidates]
        self._starts, self._items = np.searchsorted(sources[kept], np.arange(len(entries) + 1)), items[kept]
        self._copies = counts.copies
        most = np.argsort(-np.bincount(table.items, minlength=V), kind="stable")[:frequent]
        self._always = np.zeros(V, np.bool_)
        for ids in (slice(len(SPECIALS)), most, self._of(EMPTY_WORD)):
            self._always[ids] = True

    def __call__(self, source: Ints, more: Iterable[int] = ()) -> Ints:
        """The ids that a translation of a source (S,) may have, ascending; the special ones come first.

        Args:
            source: ids, with or without an end symbol and padding.
            more: further ids that are needed.
        """
        chosen, copies = self._always.copy(), self._copies[source]
        chosen[copies[copies >= 0]] = True
        chosen[list(more)] = True
        for piece in source.tolist():
            chosen[self._of(piece)] = True
        return np.flatnonzero(chosen)

    def _of(self, piece: int) -> Ints:
        return self._items[self._starts[piece]:self._starts[piece + 1]]
