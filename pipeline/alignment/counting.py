"""From aligned sentence pairs to the tables of the count model, with memory bounded by the tables, not the corpus."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.lexicon import cut
from pipeline.count_model.lengths import fit_lengths
from pipeline.count_model.look_up import EMPTY_WORD
from pipeline.count_model.model import CountModel, Floats, Ints, LexicalTable, Table

_CHUNK = 1 << 21  # target words counted at once
_MOST = 1 << 24
"""Target words whose source words are counted together, 16 bytes each if all were distinct."""
_FILES = 256
"""The most temporary files; of a corpus of more than 4 billion words they hold more words each."""


class Aligned(NamedTuple):
    """Sentence pairs with their links."""

    bitext: Bitext
    links: NDArray[np.int32]
    """Position of each target word's source word in its sentence, from 0, or -1, shape (target words)."""

    def chunks(self) -> Iterator["_Words"]:
        """Yield the target words with their source words in chunks, without dividing pairs."""
        starts = self.bitext.target.offsets
        first = 0
        while first < self.bitext.pairs:
            last = int(np.searchsorted(starts, starts[first] + _CHUNK, side="right")) - 1
            last = max(last, first + 1)
            yield _words(self.bitext.part(first, last), self.links[starts[first]:starts[last]].astype(np.int64))
            first = last


class _Words(NamedTuple):
    """Per target word: source word, offset a - t, a (0: the empty word), t, S, and the target word y."""

    x: Ints
    offset: Ints
    a: Ints
    t: Ints
    S: Ints
    y: Ints


def _words(bitext: Bitext, links: Ints) -> _Words:
    source, target = bitext
    counts = target.lengths
    t = np.arange(len(target.ids)) - np.repeat(target.offsets[:-1], counts) + 1
    places = np.repeat(source.offsets[:-1], counts) + links
    linked = links >= 0
    x = np.full(len(t), EMPTY_WORD, np.int64)
    x[linked] = source.ids[places[linked]]
    return _Words(x, np.where(linked, links + 1 - t, 0), links + 1, t, np.repeat(source.lengths, counts),
                  target.ids.astype(np.int64))


class _Counter:
    """Counts of 64-bit keys. Chunks are merged when their size exceeds that of the result so far."""

    def __init__(self) -> None:
        self._keys, self._counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []

    def add(self, keys: Ints) -> None:
        distinct, counts = np.unique(keys, return_counts=True)
        self._waiting.append((distinct, counts.astype(np.int64)))
        if sum(len(keys) for keys, _ in self._waiting) > len(self._keys):
            self._merge()

    def result(self) -> tuple[Ints, Ints]:
        """Return the distinct keys in ascending order, and the count of each."""
        self._merge()
        return self._keys, self._counts

    def _merge(self) -> None:
        keys = np.concatenate([self._keys, *(keys for keys, _ in self._waiting)])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._waiting)])
        self._waiting = []
        self._keys, places = np.unique(keys, return_inverse=True)
        self._counts = np.bincount(places, counts, len(self._keys)).astype(np.int64)


def count(aligned: Sequence[Aligned], *, top: int, target_vocabulary: int, copies: NDArray[np.int32], digest: str,
          tension: float, null_probability: float, diagonal: float = 0.0, folder: Path | None = None) -> CountModel:
    """Count one or several corpora as one, and fit the length regression.

    Per P(y | x, offset) and per P(y | t), the `top` most frequent words are kept. For the rest see `CountModel`.
    `folder` is for temporary files, which have no names: 8 bytes per target word.
    """
    lengths = [np.concatenate([side.lengths for side in sides])
               for sides in zip(*(one.bitext for one in aligned), strict=True)]
    longest = int(max(side.max(initial=0) for side in lengths))
    V = target_vocabulary
    prior, position, occurrences = _Counter(), _Counter(), np.zeros(len(copies), np.int64)
    for one in aligned:
        for words in one.chunks():
            occurrences += np.bincount(words.x, minlength=len(copies))
            prior.add((words.S * (longest + 1) + words.t) * (longest + 1) + words.a)
            position.add(words.t * V + words.y)
            position.add(words.y)  # row 0: at any position
    kind, reach = np.uint16 if V <= 1 << 16 else np.uint32, 2 * longest + 1
    parts = cut(occurrences, max(_MOST, int(occurrences.sum()) // _FILES + 1))
    keys, table = _joined([_table(*counter.result(), V, top, kind)
                           for counter in _lexical(aligned, parts, longest, V, folder)])
    first = np.searchsorted(keys // reach, np.arange(len(copies) + 1)).astype(np.int64)
    _, priors = _table(*prior.result(), longest + 1, longest + 1, np.uint16, rows=(longest + 1) ** 2)
    _, positions = _table(*position.result(), V, top, kind, rows=longest + 1)
    return CountModel(LexicalTable(first, (keys % reach - longest).astype(np.int16), table), priors, positions, copies,
                      fit_lengths(*lengths), longest, tension, null_probability, diagonal, target_vocabulary, digest)


def _lexical(aligned: Sequence[Aligned], parts: Sequence[tuple[int, int]], longest: int, V: int,
             folder: Path | None) -> Iterator[_Counter]:
    """Count ((x, offset), y), with one counter after the other for each part first .. last - 1 of the source words.

    One pass over the corpus divides the keys among a temporary file per part.
    """
    firsts = np.array([first for first, _ in parts])
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile(dir=folder)) for _ in parts]
        for one in aligned:
            for words in one.chunks():
                keys = (words.x * (2 * longest + 1) + words.offset + longest) * V + words.y
                part_of = (np.searchsorted(firsts, words.x, side="right") - 1).astype(np.uint16)  # sorted by radix
                sizes = np.bincount(part_of, minlength=len(parts))
                divided = np.split(keys[np.argsort(part_of, kind="stable")], np.cumsum(sizes)[:-1])
                for file, of_part in zip(files, divided, strict=True):
                    file.write(of_part.tobytes())
        for file in files:
            counter = _Counter()
            file.seek(0)
            while block := file.read(_CHUNK * firsts.itemsize):
                counter.add(np.frombuffer(block, np.int64))
            yield counter


def _joined(parts: Sequence[tuple[Ints, Table]]) -> tuple[Ints, Table]:
    """Join the rows of several tables, one after the other."""
    names, tables = zip(*parts, strict=True)
    items, probabilities = (np.concatenate(column) for column in zip(*(table[1:] for table in tables), strict=True))
    sizes = np.concatenate([np.diff(table.starts) for table in tables])
    return np.concatenate(names), Table(np.append(0, np.cumsum(sizes)), items, probabilities)


def _table(keys: Ints, counts: Ints, width: int, top: int, kind: type, rows: int | None = None) -> tuple[Ints, Table]:
    """Return the rows that occur, ascending, and the relative frequencies of the items of every row.

    Args:
        keys, counts: keys are row * width + item, ascending.
        top: items kept per row.
        kind: type of the items.
        rows: number of rows; None: only those that occur, renumbered.
    """
    row, item = np.divmod(keys, width)
    names, place = np.unique(row, return_inverse=True)
    totals = np.bincount(place, counts, len(names))
    probability: Floats = (counts / totals[place]).astype(np.float32)
    order = np.lexsort((item, -counts, place))
    begins = np.searchsorted(place, np.arange(len(names)))
    rank = np.arange(len(keys)) - begins[place]  # `place` is sorted before and after the reordering
    kept = order[rank < top]
    numbers = place if rows is None else row
    starts = np.searchsorted(numbers[kept], np.arange((len(names) if rows is None else rows) + 1)).astype(np.int64)
    return names, Table(starts, item[kept].astype(kind), probability[kept])
