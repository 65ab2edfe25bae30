"""The lexicon: pairs of words that occur together, and where each cell finds its own."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from dense import Pair, bitext, corpora
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.alignment import lexicon
from pipeline.alignment.lexicon import Lexicon, collect, cut, look_up


def collected(parts: Sequence[Sequence[Pair]], threads: int = 1) -> Lexicon:
    with ThreadPoolExecutor(threads) as pool:
        return collect([bitext(pairs) for pairs in parts], threads, pool)


@settings(max_examples=60)
@given(parts=st.lists(corpora(words=7), max_size=3), threads=st.integers(1, 3))
def test_it_holds_what_occurs_together(parts: list[list[Pair]], threads: int) -> None:
    pairs = [pair for part in parts for pair in part]
    expected = {(e, f) for source, target in pairs for f in target for e in (-1, *source)}
    starts, words = collected(parts, threads)
    found = [(row - 1, f) for row in range(len(starts) - 1) for f in words[starts[row]:starts[row + 1]].tolist()]
    assert found == sorted(expected)
    assert len(starts) == max((e for source, _ in pairs for e in source), default=-1) + 3


def test_collecting_in_small_parts_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [([e, (e * 7) % 23], [e % 11, e % 5, 3]) for e in range(23)]
    whole = collected([pairs])
    monkeypatch.setattr(lexicon, "_KEYS", 5)
    for mine, theirs in zip(whole, collected([pairs]), strict=True):
        assert np.array_equal(mine, theirs)


@settings(max_examples=60)
@given(known=corpora(words=4), asked=corpora(words=6))
def test_every_cell_finds_its_entry(known: list[Pair], asked: list[Pair]) -> None:
    table = collected([known])
    entry = {}
    for row in range(len(table.starts) - 1):
        for at in range(table.starts[row], table.starts[row + 1]):
            entry[row - 1, int(table.words[at])] = at
    expected = [entry.get((e, f), -1) for source, target in asked for e in (-1, *source) for f in target]
    cells = look_up(table, table.target_types, *bitext(asked))
    assert len(set(cells.entries.tolist())) == len(cells.entries)  # so counts of a shard are added once
    assert np.append(cells.entries, -1)[cells.places].tolist() == expected


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12))
def test_a_cut_covers_everything_once(weights: list[int], most: int) -> None:
    ranges = cut(np.array(weights, np.int64), most)
    assert [place for low, high in ranges for place in range(low, high)] == list(range(len(weights)))
    assert all(sum(weights[low:high]) <= most or high == low + 1 for low, high in ranges)
