"""Links between the words of sentence pairs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext


class Links(NamedTuple):
    """Links of all pairs, concatenated. Positions count from 0."""

    offsets: NDArray[np.int64]
    """Where pairs start and end, shape (pairs + 1)."""
    source: NDArray[np.int32]
    """Source position of every link, shape (links)."""
    target: NDArray[np.int32]
    """Target position of every link, shape (links)."""

    @classmethod
    def from_heads(cls, bitext: Bitext, heads: NDArray[np.int32]) -> "Links":
        """Return the links of target words to their source words (`heads` as from `AlignmentModel.align`)."""
        offsets = bitext.target.offsets
        linked = np.flatnonzero(heads >= 0)
        positions = np.arange(len(heads)) - np.repeat(offsets[:-1], np.diff(offsets))
        return cls(np.searchsorted(linked, offsets), heads[linked], positions[linked].astype(np.int32))

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.offsets) - 1

    def swapped(self) -> "Links":
        """Return the links with source and target exchanged, in the same order."""
        return Links(self.offsets, self.target, self.source)
