"""Sentence pairs as four arrays, the aligner's input, from encoded pairs or from tokenised text."""

from array import array
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.pairs import Pairs
from pipeline.errors import PipelineError
from pipeline.lines import read_lines


class Side(NamedTuple):
    """The sentences of one language, concatenated."""

    ids: NDArray[Any]
    """All words, shape (tokens): int32, uint16 or uint32."""
    offsets: NDArray[np.int64]
    """Where sentences start and end, shape (sentences + 1): sentence s is `ids[offsets[s]:offsets[s + 1]]`."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words of every sentence, shape (sentences)."""
        return np.diff(self.offsets)

    def part(self, first: int, last: int) -> "Side":
        """Return the sentences first .. last - 1; the ids are not copied."""
        start, end = self.offsets[first], self.offsets[last]
        return Side(self.ids[start:end], self.offsets[first:last + 1] - start)


class Bitext(NamedTuple):
    """Sentence pairs, of which either sentence may be empty."""

    source: Side
    target: Side

    @classmethod
    def from_pairs(cls, pairs: Pairs) -> "Bitext":
        """Return views of an encoded corpus; nothing is read or copied until it is used."""
        return cls(*(Side(*side) for side in pairs.sides()))

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.source.offsets) - 1

    def swapped(self) -> "Bitext":
        """Return the other direction."""
        return Bitext(self.target, self.source)

    def blocks(self, words: int) -> Iterator["Bitext"]:
        """Yield all pairs in blocks of about this number of words on both sides."""
        return (self.part(*block) for block in self.cuts(words))

    def cuts(self, words: int) -> Iterator[tuple[int, int]]:
        """Yield the bounds of blocks of at most this number of source and target words, or of one pair."""
        first = 0
        while first < self.pairs:
            ends = (np.searchsorted(side.offsets, side.offsets[first] + words // 2, side="right") - 1 for side in self)
            last = max(first + 1, int(min(ends)))
            yield first, last
            first = last

    def part(self, first: int, last: int) -> "Bitext":
        """Return the pairs first .. last - 1; the ids are not copied."""
        return Bitext(self.source.part(first, last), self.target.part(first, last))


def read_text(source: Path, target: Path, lowercase: bool = False) -> tuple[Bitext, list[str], list[str]]:
    """Read two files of tokenised sentences, one per line, plain, .gz or .zst.

    Words are separated by ASCII white space; a no-break space is part of its word.

    Returns:
        The pairs, and the words of both languages by id, in the order of their first appearance.

    Raises:
        PipelineError: a file cannot be read or is not UTF-8, the files differ in their number of lines, or both are
            empty.
    """
    source_side, source_words = _read_side(source, lowercase)
    target_side, target_words = _read_side(target, lowercase)
    bitext = Bitext(source_side, target_side)
    if bitext.pairs != bitext.swapped().pairs:
        raise PipelineError(f"{source} has {bitext.pairs} lines and {target} has {bitext.swapped().pairs}; "
                            "line N of one must translate line N of the other")
    if not bitext.pairs:
        raise PipelineError(f"{source} and {target}: both are empty; give files with one sentence per line")
    return bitext, source_words, target_words


def _read_side(path: Path, lowercase: bool) -> tuple[Side, list[str]]:
    known: defaultdict[bytes, int] = defaultdict()
    known.default_factory = known.__len__  # a new word gets the next id
    ids, offsets = array("i"), array("q", [0])
    for line in read_lines(path, progress=True):
        # Bytes are split at ASCII white space only.
        ids.extend(map(known.__getitem__, (line.lower() if lowercase else line).encode().split()))
        offsets.append(len(ids))
    return Side(np.frombuffer(ids, np.int32), np.frombuffer(offsets, np.int64)), [word.decode() for word in known]
