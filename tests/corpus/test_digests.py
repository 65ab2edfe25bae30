"""The set of digests on disk is a set, and keeps little in memory."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.sources import digests as module
from pipeline.sources.digests import DigestSet, digests
from pipeline.sources.filtering import CorpusFilter
from pipeline.sources.settings import FilterSettings

chunks_of_digests = st.lists(st.lists(st.integers(0, 60) | st.integers(2**64 - 3, 2**64 - 1), max_size=9), max_size=12)


@pytest.fixture
def tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IN_MEMORY", 3)


@settings(max_examples=60, deadline=None)
@given(chunks=chunks_of_digests, queries=st.lists(st.integers(0, 60), max_size=9))
def test_it_is_a_set(chunks: list[list[int]], queries: list[int]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "_IN_MEMORY", 3)
        found, expected = DigestSet(Path()), set[int]()
        for chunk in chunks:
            new = found.add(np.array(chunk, np.uint64)).tolist()
            for digest, is_new in zip(chunk, new, strict=True):
                assert is_new == (digest not in expected)
                expected.add(digest)
            sizes = [len(run) for run in found._runs]
            assert len(found._recent) < 3 and sum(sizes) + len(found._recent) == len(expected)
            assert all(one >= 2 * other for one, other in pairwise(sizes))  # so few runs
        assert found.has(np.array(queries, np.uint64)).tolist() == [query in expected for query in queries]
        found.close()


def test_the_filters_remember_on_disk_what_they_saw(tiny_runs: None) -> None:
    corpus_filter = CorpusFilter(FilterSettings(min_words=1), Path())
    train = [(f"source {number % 40}", f"target {number % 40} text") for number in range(100)]
    assert list(corpus_filter.apply("train", train)) == train[:40]
    assert list(corpus_filter.apply("test", [train[5], ("new source", "new target")])) == [("new source", "new target")]
    assert len(corpus_filter._claimed._recent) < 3
    corpus_filter._claimed.close()


def test_a_limit_reads_no_entry_too_many() -> None:
    entries = iter([("one", "eins"), ("", ""), ("two", "zwei"), ("three", "drei"), ("four", "vier")])
    corpus_filter = CorpusFilter(FilterSettings(min_words=1), Path())
    assert len(list(corpus_filter.apply("train", entries, 2))) == 2
    assert corpus_filter.counts["train"] == {"read": 3, "empty": 1, "duplicate": 0, "kept": 2}
    assert next(entries) == ("three", "drei")


def test_digests_are_those_of_their_texts() -> None:
    assert len(digests([])) == 0
    one, other, again = digests(["a", "b", "a"]).tolist()
    assert one == again != other
