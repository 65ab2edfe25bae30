"""The pairs of words that occur together, and the entry of each cell of the corpus in the table of their probabilities.

A *cell* is one source word (or none) and one target word of the same pair: a pair of m and n words has (m + 1) n.
There is no hash table. A row of the lexicon is scattered into an array of the size of the target vocabulary, in which
all occurrences of its source word in the corpus are looked up before the next row.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext, Side
from pipeline.alignment.group import ALONE, Group
from pipeline.compiled import njit
from pipeline.errors import PipelineError

_KEYS = 1 << 22
"""Most word pairs that a thread collects at once, 8 bytes each."""
_BLOCK = 1 << 23
"""Words of the corpus in which a thread looks for them at once, 8 bytes each."""


class Lexicon(NamedTuple):
    """Pairs of words that occur together, by source word. Row 0 is for no word, row e + 1 for source id e."""

    starts: NDArray[np.int64]
    """Where rows start and end, shape (source ids + 2)."""
    words: NDArray[np.int32]
    """Target ids, ascending in every row, shape (entries)."""

    @property
    def target_types(self) -> int:
        """One more than the largest target id; row 0 has all of them."""
        end = self.starts[1]
        return int(self.words[end - 1]) + 1 if end else 0


class Cells(NamedTuple):
    """The cells of some pairs, by the entries that these pairs need."""

    places: NDArray[np.int32]
    """Where in `entries` the entry of every cell is, shape (cells); -1: the lexicon lacks the pair of words."""
    entries: NDArray[np.int32]
    """The distinct entries, by row."""


def collect(bitexts: Sequence[Bitext], threads: int, pool: Executor, group: Group = ALONE) -> Lexicon:
    """Find all pairs of words that occur together; each process of a group looks for a share of them.

    Memory: 8 bytes per pair of words, and 100 MB per thread.

    Raises:
        PipelineError: there are 2^31 pairs of words or more.
    """
    sources = max((_types(bitext.source) for bitext in bitexts), default=0)
    targets = max((_types(bitext.target) for bitext in bitexts), default=0)
    cells = np.zeros(sources, np.int64)
    seen = np.zeros(targets, np.bool_)
    for bitext in bitexts:
        _count_cells(bitext.source, bitext.target, cells)
        seen[bitext.target.ids] = True
    bounds = np.minimum(cells, targets)
    ranges = cut(bounds, min(_KEYS, int(bounds.sum()) // (4 * threads) + 1))

    def find(part: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the sizes of some rows, and their words."""
        bound = int(bounds[part[0]:part[1]].sum())
        keys = np.empty(0, np.int64)
        for bitext in bitexts:
            for block in bitext.blocks(_BLOCK):
                keys = np.concatenate([keys, _keys(*block, *part, bound, targets)])
                keys.sort()  # np.unique would hash: ten times slower here
                keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
        ends = np.searchsorted(keys, np.arange(part[0] + 2, part[1] + 2) << 32)
        return np.diff(ends, prepend=0), keys.astype(np.int32)  # the lower half: the word

    found = group.collect(list(pool.map(find, [ranges[number] for number in group.share(len(ranges))])), len(ranges))
    empty_word = np.flatnonzero(seen).astype(np.int32)
    words = np.concatenate([empty_word, *(words for _, words in found)])
    if len(words) >= 1 << 31:
        raise PipelineError(f"{len(words)} pairs of words occur together, too many to align at once; align a part of "
                            "the corpus, or fewer distinct words (BPE)")
    starts = np.cumsum(np.concatenate([[0, len(empty_word)], *(sizes for sizes, _ in found)]), dtype=np.int64)
    return Lexicon(starts, words)


def _types(side: Side) -> int:
    """One more than the largest id."""
    return int(side.ids.max()) + 1 if len(side.ids) else 0


def cut(weights: NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Cut an array into ranges whose sums are at most `most`, or of one element."""
    before = np.append(0, np.cumsum(weights))
    ranges, low = [], 0
    while low < len(weights):
        high = max(low + 1, int(np.searchsorted(before, before[low] + most, side="right")) - 1)
        ranges.append((low, high))
        low = high
    return ranges


@njit(cache=True, nogil=True)
def _count_cells(source: Side, target: Side, cells: NDArray[np.int64]) -> None:
    """Add to `cells`, shape (source ids), the number of cells of each source word."""
    for sentence in range(len(source.offsets) - 1):
        words = target.offsets[sentence + 1] - target.offsets[sentence]
        for place in range(source.offsets[sentence], source.offsets[sentence + 1]):
            cells[source.ids[place]] += words


@njit(cache=True, nogil=True)
def _occurrences(side: Side, low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Find the occurrences of the words low .. high - 1.

    Returns:
        starts, shape (high - low + 1), and sentences and positions in them, by word in the order of the corpus.
    """
    starts = np.zeros(high - low + 2, np.int64)
    for word in side.ids:
        if low <= word < high:
            starts[word - low + 2] += 1
    starts = starts.cumsum()
    sentences, positions = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32)
    for sentence in range(len(side.offsets) - 1):
        begin = side.offsets[sentence]
        for place in range(begin, side.offsets[sentence + 1]):
            word = side.ids[place]
            if low <= word < high:
                at = starts[word - low + 1]
                sentences[at], positions[at] = sentence, place - begin
                starts[word - low + 1] += 1
    return starts[:-1], sentences, positions


@njit(cache=True, nogil=True)
def _keys(source: Side, target: Side, low: int, high: int, bound: int, target_types: int) -> NDArray[np.int64]:
    """Return (row << 32 | target id) of the distinct pairs of words, at most `bound`, of source ids low .. high - 1."""
    starts, sentences, _ = _occurrences(source, low, high)
    last_seen_by = np.full(target_types, -1, np.int64)
    keys, found = np.empty(bound, np.int64), 0
    for e in range(low, high):
        for at in range(starts[e - low], starts[e - low + 1]):
            sentence = sentences[at]
            for place in range(target.offsets[sentence], target.offsets[sentence + 1]):
                f = target.ids[place]
                if last_seen_by[f] != e:
                    last_seen_by[f] = e
                    keys[found] = (np.int64(e) + 1) << 32 | np.int64(f)
                    found += 1
    return keys[:found]


@njit(cache=True, nogil=True)
def look_up(lexicon: Lexicon, target_types: int, source: Side, target: Side) -> Cells:
    """Return the entry of every cell of some pairs.

    The cells of a pair of m and n words are an (m + 1, n) matrix, whose row 0 is for no source word.
    """
    rows = len(lexicon.starts) - 1
    before = np.zeros(len(source.offsets), np.int64)
    for sentence in range(len(source.offsets) - 1):
        m = source.offsets[sentence + 1] - source.offsets[sentence]
        before[sentence + 1] = before[sentence] + (m + 1) * (target.offsets[sentence + 1] - target.offsets[sentence])
    places = np.full(before[-1], -1, np.int32)
    entries, found = np.empty(min(before[-1], len(lexicon.words)), np.int32), 0
    starts, sentences, positions = _occurrences(source, 0, rows - 1)
    entry_of = np.full(target_types, -1, np.int32)  # the entry of a word in the row, if it has one
    place_of = np.empty(target_types, np.int32)  # where that is in `entries`, or -1 before it is
    for row in range(rows):
        begin, end = lexicon.starts[row], lexicon.starts[row + 1]
        first, last = (0, len(source.offsets) - 1) if row == 0 else (starts[row - 1], starts[row])
        if first == last:
            continue
        for entry in range(begin, end):
            entry_of[lexicon.words[entry]] = entry
            place_of[lexicon.words[entry]] = -1
        for at in range(first, last):
            sentence, j = (at, 0) if row == 0 else (sentences[at], positions[at] + 1)
            start, n = target.offsets[sentence], target.offsets[sentence + 1] - target.offsets[sentence]
            for i in range(n):
                f = target.ids[start + i]
                # Entries of earlier rows are still in the array; they are outside of this row's range.
                if f < target_types and begin <= entry_of[f] < end:
                    if place_of[f] < 0:
                        place_of[f], entries[found] = found, entry_of[f]
                        found += 1
                    places[before[sentence] + j * n + i] = place_of[f]
    return Cells(places, entries[:found].copy())
