"""A set of the digests of texts that grows on disk, in memory that does not depend on its size."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

Digests = NDArray[np.uint64]

_IN_MEMORY = 1 << 20
"""Digests, 8 bytes each, that are kept in memory before they become a run on disk; also those read at once."""


def digests(texts: Iterable[str]) -> Digests:
    """Hashes of 64 bits. The probability of any collision among 10 million texts is 1 in 370,000."""
    return np.frombuffer(b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts), np.uint64)


class DigestSet:
    """Sorted runs of digests: one in memory, the others in temporary files, of which no two are of similar size.

    As runs of similar size are merged, N digests are in about log N runs, and each is written about log N times.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is where temporary files are; they have no name and vanish with the process."""
        self._folder = folder
        self._recent = np.empty(0, np.uint64)
        self._runs: list[tuple[int, IO[bytes]]] = []  # size, file; the largest first

    def has(self, queries: Digests) -> NDArray[np.bool_]:
        """Which of the digests are in the set."""
        order = np.argsort(queries)
        ascending = queries[order]
        found = _isin(ascending, self._recent)
        for size, file in self._runs:
            for block in _blocks(size, file):
                low, high = np.searchsorted(ascending, block[0]), np.searchsorted(ascending, block[-1], side="right")
                found[low:high] |= _isin(ascending[low:high], block)
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
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        file.write(self._recent.tobytes())
        self._runs.append((len(self._recent), file))
        self._recent = np.empty(0, np.uint64)
        while len(self._runs) > 1 and self._runs[-2][0] < 2 * self._runs[-1][0]:
            runs = self._runs[-2:]
            merged = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            for block in _merged(runs):
                merged.write(block.tobytes())
            self._runs[-2:] = [(sum(size for size, _ in runs), merged)]
            for _, old in runs:
                old.close()

    def close(self) -> None:
        """Remove the temporary files."""
        for _, file in self._runs:
            file.close()


def _isin(ascending: Digests, run: Digests) -> NDArray[np.bool_]:
    if not len(run):
        return np.zeros(len(ascending), np.bool_)
    places = np.minimum(np.searchsorted(run, ascending), len(run) - 1)
    return run[places] == ascending


def _blocks(size: int, file: IO[bytes]) -> Iterator[Digests]:
    file.seek(0)
    for start in range(0, size, _IN_MEMORY):
        yield np.frombuffer(file.read(8 * min(_IN_MEMORY, size - start)), np.uint64)


def _merged(runs: Sequence[tuple[int, IO[bytes]]]) -> Iterator[Digests]:
    """The digests of two runs in one ascending sequence."""
    longer, shorter = (_blocks(*run) for run in runs)
    waiting = next(shorter, None)
    for block in longer:
        while waiting is not None and waiting[-1] <= block[-1]:
            cut = np.searchsorted(block, waiting[-1])
            yield np.sort(np.concatenate([block[:cut], waiting]))
            block, waiting = block[cut:], next(shorter, None)
        if waiting is None:
            yield block
        else:
            cut = np.searchsorted(waiting, block[-1])
            yield np.sort(np.concatenate([block, waiting[:cut]]))
            waiting = waiting[cut:]
    if waiting is not None:
        yield waiting
    yield from shorter
