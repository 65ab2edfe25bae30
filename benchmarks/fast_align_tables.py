"""The links of each direction from the tables that the published fast_align learned.

The package `systran-align` learns as fast_align does but gives away symmetrised links only. Its tables hold the lexical
probabilities; with the tension that it prints they are all of the model, and the best source word of a target word is
the largest product: fast_align's own last pass. `tests/benchmarks/test_fast_align_tables.py` holds this reading to the
package's own scores.

A table is a file of little-endian 32-bit numbers: a version, the number of words, the words (ended by a zero byte each,
numbered from 1), the number of rows, and the rows: source word, number of entries, and (target word, probability as
a float) of each.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NULL = "<eps>"
NULL_PROBABILITY = 0.08
"""That a target word has no source word; fast_align's default."""
LOWEST = 1e-9
"""What fast_align takes for any smaller lexical probability."""

_ENTRY = np.dtype([("word", "<u4"), ("probability", "<f4")])


class Table(NamedTuple):
    """Lexical probabilities of one direction."""

    words: dict[str, int]
    """Number of each word, both languages together."""
    keys: NDArray[np.int64]
    """Source word << 32 | target word, ascending."""
    probabilities: NDArray[np.float64]
    """Of the target word given the source word, key by key."""

    def numbers(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Numbers of the words; 0 for one that the table does not have."""
        return np.array([self.words.get(word, 0) for word in words], dtype=np.int64)

    def lookup(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n, m) probabilities of n target words given m source words."""
        wanted = sources << 32 | targets[:, None]
        at = np.searchsorted(self.keys, wanted).clip(max=len(self.keys) - 1)
        return np.maximum(np.where(self.keys[at] == wanted, self.probabilities[at], 0), LOWEST)


def read_table(path: Path) -> Table:
    """Read a table that `generate_alignment_probabilities` wrote."""
    data = path.read_bytes()
    count = int.from_bytes(data[4:8], "little")
    at = 8
    words = {}
    for number in range(1, count + 1):
        end = data.index(b"\0", at)
        words[data[at:end].decode("utf-8")] = number
        at = end + 1
    at += 4
    keys, probabilities = [], []
    while at < len(data):
        source, entries = np.frombuffer(data, "<u4", 2, at)
        row = np.frombuffer(data, _ENTRY, int(entries), at + 8)
        at += 8 + row.nbytes
        keys.append(np.int64(source) << 32 | row["word"].astype(np.int64))
        probabilities.append(row["probability"].astype(np.float64))
    every_key = np.concatenate(keys)
    order = np.argsort(every_key)
    return Table(words, every_key[order], np.concatenate(probabilities)[order])


def read_tensions(log: str) -> tuple[float, float]:
    """Tension of the forward and of the backward model, the last that fast_align printed for each.

    >>> read_tensions("ITERATION 1\\n final tension: 4.5\\n final tension: 5.5\\nITERATION 1\\n final tension: 12.0\\n")
    (5.5, 12.0)
    """
    forward, backward = log.split("ITERATION 1\n")[1:]
    last = [float(re.findall(r"final tension: (\S+)", part)[-1]) for part in (forward, backward)]
    return last[0], last[1]


def scores(table: Table, tension: float, source: Sequence[str], target: Sequence[str]) -> NDArray[np.float64]:
    """(n, 1 + m) joint probability of each of n target words with no source word, and with each of m."""
    m, n = len(source), len(target)
    targets = table.numbers(target)
    near = np.exp(-tension * np.abs(np.arange(1, n + 1)[:, None] / n - np.arange(1, m + 1) / m))
    prior = (1 - NULL_PROBABILITY) * near / near.sum(axis=1, keepdims=True)
    return np.hstack([NULL_PROBABILITY * table.lookup(table.numbers([NULL]), targets),
                      prior * table.lookup(table.numbers(source), targets)])


def best_sources(table: Table, tension: float, source: Sequence[str], target: Sequence[str]) -> NDArray[np.int64]:
    """(n,) position of the best source word of each target word from 0, the first among equals; -1 for none."""
    return scores(table, tension, source, target).argmax(axis=1) - 1
