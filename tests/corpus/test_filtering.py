"""Every filter drops what it says, counts it, and train never shares a source with the other splits."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.lines import normalise
from pipeline.sources.filtering import CorpusFilter
from pipeline.sources.settings import FilterSettings
from pipeline.sources.splits import Entry, Pair

Corpus = dict[str, list[Entry]]

FINE = ("two brown foxes", "zwei braune Füchse")

# Few words, so that duplicates, overlaps and identical sides are common.
sentences = st.lists(st.sampled_from(["a", "bb", "ccc", "\t", "é", "e\u0301"]), max_size=5).map(" ".join)
splits_of_pairs = st.fixed_dictionaries(
    {split: st.lists(st.tuples(sentences, sentences), max_size=12) for split in SPLITS})


def run(rules: FilterSettings, splits: Corpus) -> tuple[Corpus, CorpusFilter]:
    corpus_filter = CorpusFilter(rules, Path())
    kept = {split: list(corpus_filter.apply(split, splits[split])) for split in corpus_filter.order}
    return kept, corpus_filter


def one_pair_each(**changed: list[Entry]) -> Corpus:
    return {split: [(f"{split} {FINE[0]}", f"{split} {FINE[1]}")] for split in SPLITS} | changed


@settings(max_examples=40, deadline=None)
@given(splits=splits_of_pairs, evaluation=st.booleans(), min_words=st.integers(1, 3))
def test_train_shares_no_source_with_the_other_splits(splits: Corpus, evaluation: bool,
                                                      min_words: int) -> None:
    kept, _ = run(FilterSettings(min_words=min_words, evaluation=evaluation), splits)
    sources = {split: {source for source, _ in pairs} for split, pairs in kept.items()}
    assert not sources["train"] & (sources["validation"] | sources["test"])


@settings(max_examples=40, deadline=None)
@given(splits=splits_of_pairs, evaluation=st.booleans())
def test_every_pair_is_counted_once(splits: Corpus, evaluation: bool) -> None:
    kept, corpus_filter = run(FilterSettings(min_words=1, evaluation=evaluation), splits)
    for split in SPLITS:
        counts = corpus_filter.counts[split]
        assert counts["read"] == len(splits[split])
        assert counts["kept"] == len(kept[split])
        assert sum(counts.values()) == 2 * counts["read"]


@settings(max_examples=40, deadline=None)
@given(splits=splits_of_pairs)
def test_filtering_twice_changes_nothing(splits: Corpus) -> None:
    rules = FilterSettings(min_words=2)
    once, _ = run(rules, splits)
    twice, _ = run(rules, once)
    assert twice == once


@settings(max_examples=40, deadline=None)
@given(splits=splits_of_pairs)
def test_published_test_sets_stay_whole_and_in_order(splits: Corpus) -> None:
    kept, _ = run(FilterSettings(evaluation=False), splits)
    for split in ("validation", "test"):
        assert kept[split] == [(normalise(source), normalise(target)) for source, target in splits[split]]


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_normalised_text_is_one_clean_line(text: str) -> None:
    line = normalise(text)
    assert len(line.splitlines()) <= 1
    assert line == normalise(line) == " ".join(line.split())
    line.encode("utf-8")


@pytest.mark.parametrize("text, form, expected", [
    ("cafe\u0301", "NFC", "café"),
    ("cafe\u0301", "none", "cafe\u0301"),
    ("\ufb01ne \u2460", "NFKC", "fine 1"),
    ("\ufb01ne", "NFC", "\ufb01ne"),
    ("a\u2028b\x0cc\u00a0d\r\ne", "NFC", "a b c d e"),
    ("bell\x07and\x00null", "NFC", "bell and null"),
    ("half \ud83d pair", "NFC", "half pair"),
    ("שלום  👋🏽", "NFC", "שלום 👋🏽"),
])
def test_normalise(text: str, form: str, expected: str) -> None:
    assert normalise(text, form) == expected


@pytest.mark.parametrize("name, pair", [
    ("empty", ("", "etwas")),
    ("empty", ("some words here", " \t ")),
    ("too_short", ("two words", "zwei Wörter")),
    ("too_long", ("w " * 61, "v " * 61)),
    ("length_ratio", ("one two three", "x" * 53)),
    ("length_ratio", ("one two three four", "ein")),
    ("identical", ("Zigbee coordinator firmware", "Zigbee  coordinator firmware")),
    ("duplicate", (f" {FINE[0]}", FINE[1])),
])
def test_each_filter_drops_its_pair(name: str, pair: Pair) -> None:
    kept, corpus_filter = run(FilterSettings(), one_pair_each(train=[FINE, pair]))
    assert kept["train"] == [FINE]
    assert corpus_filter.report()["train"][name] == 1


@pytest.mark.parametrize("pair", [("one two three", "x" * 52), ("w " * 60, "v " * 60), ("a b c", "abc")])
def test_the_limits_themselves_are_kept(pair: Pair) -> None:
    kept, _ = run(FilterSettings(), one_pair_each(train=[pair]))
    assert len(kept["train"]) == 1


def test_switched_off_filters_drop_nothing() -> None:
    pairs = [("same on both", "same on both")] * 2
    lenient = FilterSettings(drop_identical=False, drop_duplicates=False)
    kept, corpus_filter = run(lenient, one_pair_each(train=pairs))
    assert kept["train"] == pairs
    assert "identical" not in corpus_filter.report()["train"]


def test_one_source_may_have_two_translations_in_train() -> None:
    pairs = [FINE, (FINE[0], "zwei rotbraune Füchse")]
    assert run(FilterSettings(), one_pair_each(train=pairs))[0]["train"] == pairs


def test_overlap_is_taken_from_the_side_that_gives_way() -> None:
    shared = one_pair_each(train=[FINE, ("one more of them", "noch eins davon")],
                           test=[FINE, ("never seen in training", "im Training nie gesehen")])
    for evaluation, loser in ((True, "test"), (False, "train")):
        kept, corpus_filter = run(FilterSettings(evaluation=evaluation), shared)
        assert FINE not in kept[loser] and len(kept[loser]) == 1
        assert corpus_filter.report()[loser]["overlap"] == 1


def test_further_references_stay_beside_their_pair() -> None:
    entries = [(*FINE, "zwei  rotbraune Füchse"), ("one", "eins", "einer"), (*FINE, FINE[1])]
    for evaluation, expected in ((False, [(*FINE, "zwei rotbraune Füchse"), *entries[1:]]),
                                 (True, [(*FINE, "zwei rotbraune Füchse")])):
        kept, _ = run(FilterSettings(evaluation=evaluation), one_pair_each(test=entries))
        assert kept["test"] == expected


def test_an_empty_split_names_the_filter_that_emptied_it() -> None:
    unfit = [("short", "kurz"), ("tiny", "klein"), ("", "")]
    _, corpus_filter = run(FilterSettings(), one_pair_each(test=unfit))
    with pytest.raises(PipelineError, match=r"3 pairs of the test split: the filter 'too_short' dropped 2"):
        corpus_filter.report()
    _, corpus_filter = run(FilterSettings(), one_pair_each(validation=[]))
    with pytest.raises(PipelineError, match="the validation split is empty"):
        corpus_filter.report()
