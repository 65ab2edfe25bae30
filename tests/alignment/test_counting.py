"""Counting in pieces: the same tables, however the corpus is cut."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lattices import AlignedPair, aligned, counted, random_corpus

from pipeline.alignment import counting
from pipeline.alignment.counts import CountModel, Table

CORPUS = random_corpus(40)
EMPTY: AlignedPair = ([], [], [])
NO_SOURCE: AlignedPair = ([], [9, 8], [-1, -1])
NO_TARGET: AlignedPair = ([11, 12, 13], [], [])


def saved(model: CountModel, folder: Path) -> bytes:
    model.save(folder / "some.safetensors")
    return (folder / "some.safetensors").read_bytes()


@pytest.mark.parametrize("chunk", [1, 2, 7, 50])
@pytest.mark.parametrize("corpus", [
    CORPUS, [EMPTY, *CORPUS, EMPTY, EMPTY], [NO_TARGET, NO_SOURCE, *CORPUS[:3], NO_TARGET], [NO_SOURCE], [EMPTY] * 3])
def test_the_chunks_do_not_show(corpus: list[AlignedPair], chunk: int, tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved(counted(corpus), tmp_path)
    monkeypatch.setattr(counting, "_CHUNK", chunk)
    chunks = list(aligned(corpus).chunks())
    assert sum(len(words.y) for words in chunks) == sum(len(target) for _, target, _ in corpus)
    assert len(chunks) > 1 or chunk == 50 or len(corpus) < 4
    assert saved(counted(corpus), tmp_path) == whole


def test_several_corpora_are_counted_as_one(tmp_path: Path) -> None:
    parts = CORPUS[:11], [EMPTY], CORPUS[11:30], CORPUS[30:]
    whole = saved(counted([pair for part in parts for pair in part]), tmp_path)
    assert saved(counted(*parts), tmp_path) == whole
    assert saved(counted(*parts[::-1]), tmp_path) == whole


def test_the_tables_grow_with_what_is_distinct(tmp_path: Path) -> None:
    once, again = saved(counted(CORPUS), tmp_path), saved(counted(*[CORPUS] * 5), tmp_path)
    assert once == again
    new = [([7], [8], [0])]
    assert len(saved(counted(CORPUS, new), tmp_path)) - len(once) < 100


@given(st.lists(st.lists(st.integers(0, 9) | st.integers(0, 2**62), max_size=8), max_size=12))
def test_the_counter_is_unique(chunks: list[list[int]]) -> None:
    counter = counting._Counter()
    for chunk in chunks:
        counter.add(np.array(chunk, np.int64))
    for _ in range(2):  # asking changes nothing
        for found, expected in zip(counter.result(), np.unique(np.array(sum(chunks, []), np.int64), return_counts=True),
                                   strict=True):
            assert found.dtype == np.int64 and np.array_equal(found, expected)


def rows(table: Table) -> list[list[tuple[int, float]]]:
    both = list(zip(table.items.tolist(), table.probabilities.tolist(), strict=True))
    return [both[begin:end] for begin, end in zip(table.starts[:-1], table.starts[1:], strict=True)]


@pytest.mark.parametrize("top", [1, 3, 40])
def test_what_the_tables_hold(top: int) -> None:
    model = counted(CORPUS, top=top)
    longest, lexicon = model.longest, model.lexicon
    assert longest == max(len(side) for pair in CORPUS for side in pair[:2])
    assert len(lexicon.first) == 20 + 1 and len(lexicon.table.starts) == len(lexicon.offsets) + 1 == lexicon.first[-1] + 1
    for x in range(20):
        offsets = lexicon.offsets[lexicon.first[x]:lexicon.first[x + 1]].tolist()
        assert offsets == sorted(set(offsets)) and (x or offsets == [0])
    for table, most in ((lexicon.table, top), (model.prior, longest + 1), (model.by_position, top)):
        assert table.starts[0] == 0 and table.starts[-1] == len(table.items) == len(table.probabilities)
        for row in rows(table):
            assert row == sorted(row, key=lambda entry: (-entry[1], entry[0])) and len(row) <= most
            if row and most == max(top, longest + 1):
                assert sum(probability for _, probability in row) == pytest.approx(1)
    pairs = {(len(source), t) for source, target, _ in CORPUS for t in range(1, len(target) + 1)}
    assert {divmod(row, longest + 1) for row, there in enumerate(rows(model.prior)) if there} == pairs
    assert [bool(row) for row in rows(model.by_position)] == [
        t <= max(len(target) for _, target, _ in CORPUS) for t in range(longest + 1)]


def far_apart(length: int) -> list[AlignedPair]:
    """The first word of one side belongs to the last of the other."""
    return [([7, *[8] * (length - 2), 9], [10], [length - 1]), ([11], [12] * length, [-1] * (length - 1) + [0])]


@pytest.mark.parametrize("length", [2, 3, 300])
def test_the_farthest_offsets_and_the_largest_ids(length: int) -> None:
    model = counted(far_apart(length), vocabulary=20)
    found = {x: model.lexicon.offsets[model.lexicon.first[x]:model.lexicon.first[x + 1]].tolist() for x in range(20)}
    assert found == {**{x: [] for x in range(20)}, 0: [0], 9: [length - 1], 11: [1 - length]}
    large = 70_000
    corpus = [([large - 1] * 3, [large - 1, large - 2], [2, 0]), ([large - 2], [8], [0])]
    assert words_of(corpus, large) == {(0, 0): [large - 1], (0, 1): [large - 2], (1, 0): [8]}
    assert counted(corpus, vocabulary=large).lexicon.table.items.dtype == np.uint32


def words_of(corpus: Sequence[AlignedPair], vocabulary: int) -> dict[tuple[int, int], list[int]]:
    """The only candidates of the targets of a corpus."""
    model, found = counted(corpus, vocabulary=vocabulary), {}
    for number, (source, target, _) in enumerate(corpus):
        words, scores = model.candidates(np.array([source]), np.array([len(source)]), len(target), 1)
        assert (scores == 0).all()
        found |= {(number, t): word for t, word in enumerate(words[0].tolist())}
    return found
