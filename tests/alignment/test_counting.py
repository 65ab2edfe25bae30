"""Counting in pieces: the same tables, however the corpus is cut."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lattices import AlignedPair, aligned, counted, random_corpus

from pipeline.alignment import counting
from pipeline.count_model.lengths import LengthRegression
from pipeline.count_model.model import CountModel, Table

CORPUS = random_corpus(40)
EMPTY: AlignedPair = ([], [], [])
NO_SOURCE: AlignedPair = ([], [9, 8], [-1, -1])
NO_TARGET: AlignedPair = ([11, 12, 13], [], [])


def saved(model: CountModel, folder: Path, lengths: bool = True) -> bytes:
    """The file of a model; without the lengths, whose floating sums know the order of the pairs."""
    (model if lengths else model._replace(lengths=LengthRegression(1.0, 0.0))).save(folder / "some.safetensors")
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


@pytest.mark.parametrize("files", [1, 3, 256])
def test_parts_of_the_source_words_change_nothing(files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved(counted(CORPUS), tmp_path)
    monkeypatch.setattr(counting, "_MOST", 7)
    monkeypatch.setattr(counting, "_FILES", files)
    assert saved(counted(CORPUS), tmp_path) == whole


def test_the_corpus_is_read_twice_however_many_parts_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes per part would take a time that grows with the square of the corpus."""
    read: list[int] = []
    chunks = counting.Aligned.chunks
    monkeypatch.setattr(counting.Aligned, "chunks", lambda self: [read.append(1), chunks(self)][1])
    monkeypatch.setattr(counting, "_MOST", 7)
    counted(CORPUS)
    assert len(read) == 2


def test_several_corpora_are_counted_as_one(tmp_path: Path) -> None:
    parts = CORPUS[:11], [EMPTY], CORPUS[11:30], CORPUS[30:]
    whole = saved(counted([pair for part in parts for pair in part]), tmp_path)
    assert saved(counted(*parts), tmp_path) == whole
    backwards = saved(counted(*parts[::-1]), tmp_path, lengths=False)
    assert backwards == saved(counted(*parts), tmp_path, lengths=False)


def test_the_tables_grow_with_what_is_distinct(tmp_path: Path) -> None:
    once = saved(counted(CORPUS), tmp_path, lengths=False)
    assert saved(counted(*[CORPUS] * 5), tmp_path, lengths=False) == once
    new: list[AlignedPair] = [([7, 7, 7, 7, 7, 7, 7, 7], [8], [7])]  # one pair of word and offset, one of S and t
    assert 0 < len(saved(counted(CORPUS, new), tmp_path, lengths=False)) - len(once) < 64


@given(st.lists(st.lists(st.integers(0, 9) | st.integers(0, 2**62), max_size=8), max_size=12))
def test_the_counter_is_unique(chunks: list[list[int]]) -> None:
    counter = counting._Counter()
    for chunk in chunks:
        counter.add(np.array(chunk, np.int64))
        assert sum(len(keys) for keys, _ in counter._waiting) <= len(counter._keys)  # what bounds the memory
    expected_result = np.unique(np.array(list(chain(*chunks)), np.int64), return_counts=True)
    for _ in range(2):  # asking changes nothing
        for found, expected in zip(counter.result(), expected_result, strict=True):
            assert found.dtype == np.int64 and np.array_equal(found, expected)


def rows(table: Table) -> list[list[tuple[int, float]]]:
    both = list(zip(table.items.tolist(), table.probabilities.tolist(), strict=True))
    return [both[begin:end] for begin, end in zip(table.starts[:-1], table.starts[1:], strict=True)]


@pytest.mark.parametrize("top", [1, 3, 40])
def test_what_the_tables_hold(top: int) -> None:
    model = counted(CORPUS, top=top)
    longest, lexicon = model.longest, model.lexicon
    assert longest == max(len(side) for pair in CORPUS for side in pair[:2])
    assert len(lexicon.first) == 20 + 1
    assert len(lexicon.table.starts) - 1 == len(lexicon.offsets) == lexicon.first[-1]
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


@pytest.mark.parametrize(("vocabulary", "kind"), [(1 << 16, np.uint16), (70_000, np.uint32)])
def test_the_largest_ids(vocabulary: int, kind: type) -> None:
    last = vocabulary - 1
    corpus: list[AlignedPair] = [([last] * 3, [last, last - 1], [2, 0]), ([last - 1], [8], [0])]
    lexicon = counted(corpus, vocabulary=vocabulary).lexicon
    assert lexicon.table.items.dtype == kind
    assert lexicon.first[-4:].tolist() == [0, 0, 1, 3]
    assert lexicon.offsets.tolist() == [0, -1, 2]
    assert rows(lexicon.table) == [[(8, 1.0)], [(last - 1, 1.0)], [(last, 1.0)]]
