"""A set of the digests of texts that grows on disk, in memory that does not depend on its size."""

import tempfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import compress, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Digests = NDArray[np.uint64]

_IN_MEMORY = 1 << 20
"""Digests, 8 bytes each, that are kept in memory before they become a run on disk; also those merged at once."""
_CHUNK = 1 << 14  # texts compared at once


def digests(texts: Iterable[str]) -> Digests:
    """Hashes of 64 bits. The probability of any collision among 10 million texts is 1 in 370,000."""
    return np.frombuffer(b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts), np.uint64)


def distinct(texts: Iterable[str], folder: Path, before: Iterable[str] = ()) -> Iterator[str]:
    """Yield each text where it first occurs, unless it is among `before`; `folder` is for temporary files.

    >>> list(distinct(["a", "b", "a", "c"], Path(), ["c"]))
    ['a', 'b']
    """
    seen = DigestSet(folder)
    for chunk in _chunks(before):
        seen.add(digests(chunk))
    for chunk in _chunks(texts):
        yield from compress(chunk, seen.add(digests(chunk)).tolist())
    seen.close()


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    return iter(lambda: list(islice(remaining, _CHUNK)), [])


class DigestSet:
    """Sorted runs of digests: one in memory, the others in mapped temporary files, of which no two are of similar size.

    As runs of similar size are merged, N digests are in about log N runs, and each is written about log N times. A
    look-up is a binary search in every run, so that N look-ups take a time that grows like N times a power of log N.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is where temporary files are; they have no name and vanish with the process."""
        self._folder = folder
        self._recent = np.empty(0, np.uint64)
        self._runs: list[Digests] = []  # the largest first

    def has(self, queries: Digests) -> NDArray[np.bool_]:
        """Which of the digests are in the set."""
        order = np.argsort(queries)
        ascending = queries[order]  # so that searches next to each other read the same pages
        found = np.zeros(len(queries), np.bool_)
        for run in (self._recent, *self._runs):
            found |= _isin(ascending, run)
        result = np.empty(len(queries), np.bool_)
        result[order] = found
        return result

    def add(self, new: Digests) -> NDArray[np.bool_]:
        """Add digests; return which of them were neither in the set nor earlier among them."""
        first = np.zeros(len(new), np.bool_)
        first[np.unique(new, return_index=True)[1]] = True
        first &= ~self.has(new)
        self._recent = np.sort(np.concatenate([self._recent, new[first]]))
        if len(self._recent) >= _IN_MEMORY:
            self._spill()
        return first

    def _spill(self) -> None:
        self._runs.append(self._on_disk([self._recent]))
        self._recent = np.empty(0, np.uint64)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._runs[-2:] = [self._on_disk(_merged(*self._runs[-2:]))]

    def _on_disk(self, blocks: Iterable[Digests]) -> Digests:
        with tempfile.TemporaryFile(dir=self._folder) as file:
            for block in blocks:
                file.write(block.tobytes())
            file.flush()
            return np.asarray(np.memmap(file, np.uint64, "r"))

    def close(self) -> None:
        """Remove the temporary files."""
        self._runs.clear()


def _isin(ascending: Digests, run: Digests) -> NDArray[np.bool_]:
    if not len(run):
        return np.zeros(len(ascending), np.bool_)
    places = np.minimum(np.searchsorted(run, ascending), len(run) - 1)
    return run[places] == ascending


def _merged(one: Digests, other: Digests) -> Iterator[Digests]:
    """The digests of two runs in one ascending sequence: those of a block of one with the other's up to its end."""
    ends = np.searchsorted(other, one[_IN_MEMORY::_IN_MEMORY])
    for number, part in enumerate(np.split(other, ends)):
        yield np.sort(np.concatenate([one[number * _IN_MEMORY:(number + 1) * _IN_MEMORY], part]))
