"""The vocabulary of a sentence as L'Hostis et al. (2016) reduce it: the likely translations of each of its words.

For every source word x these are the K words y with the highest P(y | x), the relative frequency among the words that
are linked to x. All positions of the translation share the union. No frequent words are added.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.counting import Aligned
from pipeline.vocabulary import PAD

Ints = NDArray[np.int64]


class SharedVocabulary(NamedTuple):
    """The likely translations of every word."""

    best: Ints
    """(V, K) target words of each source word, most probable first, PAD where there are no more."""

    @classmethod
    def from_links(cls, aligned: Iterable[Aligned], k: int, source_vocabulary: int,
                   target_vocabulary: int) -> "SharedVocabulary":
        """Count linked words.

        Args:
            aligned: corpora with links, counted as one. Words without a link are ignored.
            k: words to keep per source word; the lower id where two tie.
            source_vocabulary, target_vocabulary: their sizes.
        """
        parts = []
        for one in aligned:
            for words in one.chunks():
                linked = words.a > 0
                parts.append(np.unique(words.x[linked] * target_vocabulary + words.y[linked], return_counts=True))
        keys, place = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts for _, counts in parts]), len(keys))
        x, y = np.divmod(keys, target_vocabulary)
        order = np.lexsort((y, -counts, x))  # leaves x as it is
        rank = np.arange(len(x)) - np.searchsorted(x, x)
        kept = rank < k
        best = np.full((source_vocabulary, k), PAD, np.int64)
        best[x[kept], rank[kept]] = y[order][kept]
        return cls(best)

    def ranks(self, source: Ints, target: Ints, sizes: Sequence[int]) -> tuple[Ints, Ints]:
        """Rank gold words, and count the words of each sentence's vocabulary.

        Args:
            source: (B, S) ids, padded with PAD.
            target: (B, N) gold words.
            sizes: numbers of words per source word, at most K.

        Returns:
            (B, N) the best rank, from 0, of a word for any source word of its sentence, K where it is not among their
            K best: the sentence's vocabulary of k words per source word contains it if this is below k. And
            (B, sizes) how many different words that vocabulary has.
        """
        B, K = len(source), self.best.shape[1]
        width = int(max(self.best.max(), target.max())) + 1
        rows = np.arange(B)[:, None]
        words = self.best[source]  # (B, S, K)
        offers = ((rows[:, :, None] * width + words) * K + np.arange(K))[words != PAD]
        keys, rank = np.divmod(np.unique(offers), K)  # rising: the best rank of a word comes first
        first = np.concatenate([[True], keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, bool)
        keys, rank = keys[first], rank[first]
        # A last key above all others, so that every search finds a place.
        keys, rank = np.append(keys, B * width), np.append(rank, K)
        wanted = rows * width + target
        place = np.searchsorted(keys, wanted)
        found = np.where(keys[place] == wanted, rank[place], K)
        counts = [np.bincount(keys[:-1][rank[:-1] < k] // width, minlength=B) for k in sizes]
        return found, np.stack(counts, 1)
