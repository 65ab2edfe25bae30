"""Edits against enumeration of all alignments, and scores against counts by hand."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.metrics.edits import Edit, count_edits, edits_between, score_edits, tokenize

DELETE, INSERT, REPLACE, SWAP, KEEP = range(5)
"""In the order in which they are preferred, read from the end."""

WORDS = st.lists(st.sampled_from("abc"), max_size=5)
SENTENCES = st.lists(st.sampled_from(("so", "late", "it", "was", "is")), max_size=6).map(" ".join)


def alignments(source: Sequence[str], target: Sequence[str]) -> Iterator[list[int]]:
    """Every way to turn one into the other, its steps read from the end."""
    if not source and not target:
        yield []
    if source:
        yield from ([DELETE, *rest] for rest in alignments(source[:-1], target))
    if target:
        yield from ([INSERT, *rest] for rest in alignments(source, target[:-1]))
    if source and target:
        last = KEEP if source[-1] == target[-1] else REPLACE
        yield from ([last, *rest] for rest in alignments(source[:-1], target[:-1]))
    if list(source[-2:]) == list(target[-2:])[::-1] and len(source) > 1 < len(target):
        yield from ([SWAP, *rest] for rest in alignments(source[:-2], target[:-2]))


def by_enumeration(source: Sequence[str], target: Sequence[str]) -> list[Edit]:
    """The documented rule, by trying everything."""
    best = min(alignments(source, target),
               key=lambda steps: (sum(step != KEEP for step in steps), -steps.count(KEEP), steps))
    edits: list[Edit] = []
    i = j = 0
    for place, step in enumerate(best[::-1]):
        width, height = {DELETE: (1, 0), INSERT: (0, 1), SWAP: (2, 2)}.get(step, (1, 1))
        if step != KEEP:
            merge = place > 0 and best[::-1][place - 1] != KEEP
            start, words = (edits.pop()[::2]) if merge else (i, ())
            edits.append(Edit(start, i + width, (*words, *target[j:j + height])))
        i, j = i + width, j + height
    return edits


def applied(source: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    result = list(source)
    for edit in reversed(edits):
        result[edit.start:edit.end] = edit.words
    return result


@given(WORDS, WORDS)
def test_edits_are_those_of_the_best_of_all_alignments(source: list[str], target: list[str]) -> None:
    assert edits_between(source, target) == by_enumeration(source, target)


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=30))
def test_edits_turn_one_sentence_into_the_other_and_never_touch(source: list[str], target: list[str]) -> None:
    edits = edits_between(source, target)
    assert applied(source, edits) == target
    assert all(before.end < after.start for before, after in pairwise(edits))
    assert all(source[edit.start:edit.end] != list(edit.words) for edit in edits)


@pytest.mark.parametrize(("source", "target", "edits"), [
    ("", "", []),
    ("", "new", [(0, 0, "new")]),
    ("the the cat", "the cat", [(1, 2, "")]),
    ("cat the sat", "the cat sat", [(0, 2, "the cat")]),
    ("a b", "b c", [(0, 1, ""), (2, 2, "c")]),  # as cheap as two replacements, and keeps b
    ("a b c d", "c d a b", [(0, 0, "c d"), (2, 4, "")]),  # or keep c d: from the end, deleting comes before inserting
    ("he go school", "he goes to school", [(1, 2, "goes to")]),
])
def test_edits_by_hand(source: str, target: str, edits: list[tuple[int, int, str]]) -> None:
    found = edits_between(source.split(), target.split())
    assert found == [Edit(start, end, tuple(words.split())) for start, end, words in edits]


def test_tokens_keep_apostrophes_hyphens_and_accents_inside_words() -> None:
    assert tokenize("м'яч, пів’яблука й бур\u02bcян") == ["м'яч", ",", "пів’яблука", "й", "бур\u02bcян"]
    assert tokenize("за\u0301мок - 'так' -- a-b-c-") == ["за\u0301мок", "-", "'", "так", "'", "-", "-", "a-b-c", "-"]
    assert tokenize("हिन्दी में: שָׁלוֹם") == ["हिन्दी", "में", ":", "שָׁלוֹם"]  # signs of vowels are parts of words
    assert tokenize(" \t ") == []


def test_scores_by_hand() -> None:
    # One edit right, one wrong (lamp), one missed (on).
    score = score_edits(["she puts the lamps in"], ["she put the lamp in"], [["she puts the lamp on"]])
    assert score[:3] == pytest.approx((50, 50, 50))
    # Right 1, wrong 0, missed 1: P 1, R 1/2, F = 1.25 * 0.5 / (0.25 + 0.5).
    score = score_edits(["she puts the lamp in"], ["she put the lamp in"], [["she puts the lamp on"]])
    assert score[:3] == pytest.approx((100, 50, 100 * 0.625 / 0.75))


@pytest.mark.parametrize(("hypothesis", "source", "reference", "scores"), [
    ("all well", "all well", "all well", (100, 100, 100)),
    ("all well", "all good", "all good", (0, 100, 0)),
    ("all good", "all good", "all well", (100, 0, 0)),
    ("all bad", "all good", "all well", (0, 0, 0)),
    ("all well", "all good", "all well", (100, 100, 100)),
    ("", "all good", "all good", (0, 100, 0)),
])
def test_nothing_proposed_is_precise_and_nothing_to_find_is_found(
        hypothesis: str, source: str, reference: str, scores: tuple[float, ...]) -> None:
    assert score_edits([hypothesis], [source], [[reference]])[:3] == scores


def test_a_sentence_counts_with_its_kindest_reference() -> None:
    source, better, other = "he go home", "he goes home", "he went home"
    assert score_edits([better, other], [source] * 2, [[better] * 2, [other] * 2]).f05 == 100
    assert score_edits([better, other], [source] * 2, [[better] * 2]).f05 == pytest.approx(50)


@pytest.mark.parametrize("order", [1, -1])
def test_of_references_with_equal_f05_that_with_most_right_edits_counts(order: int) -> None:
    def with_edits(count: int) -> list[str]:
        return [" kept ".join([f"right{n}" if n < count else f"wrong{n}" for n in range(10)])]

    # Against ten edits: 2 right, 8 missed. Against one: 1 right, 1 wrong. 1.25 * 2 / (2.5 + 8 / 4) = 1.25 / (1.25 + 1).
    references = [with_edits(10), with_edits(1)][::order]
    score = score_edits(with_edits(2), with_edits(0), references)
    assert score[:3] == pytest.approx((100, 20, 100 * 5 / 9))
    assert score_edits(with_edits(2), with_edits(0), [with_edits(1)]).f05 == score.f05


def by_the_definition(hypotheses: Sequence[str], sources: Sequence[str],
                      references: Sequence[Sequence[str]]) -> tuple[float, ...]:
    """In right (r), wrong (w) and missed (m) edits, F0.5 as the weighted harmonic mean of precision and recall."""
    def rates(r: int, w: int, m: int) -> tuple[float, float, float]:
        P, R = (r / (r + w) if w else 1.0), (r / (r + m) if m else 1.0)
        return P, R, 1 / (0.8 / P + 0.2 / R) if P and R else 0.0

    total = (0, 0, 0)
    for n, source in enumerate(sources):
        found = set(edits_between(tokenize(source), tokenize(hypotheses[n])))
        options = []
        for stream in references:
            gold = set(edits_between(tokenize(source), tokenize(stream[n])))
            r, w, m = (now + new for now, new in
                       zip(total, (len(found & gold), len(found - gold), len(gold - found)), strict=True))
            options.append((round(rates(r, w, m)[2], 12), r, -w, -m))
        _, r, w, m = max(options)
        total = (r, -w, -m)
    return tuple(100 * rate for rate in rates(*total))


@given(st.lists(st.tuples(*[SENTENCES] * 4), min_size=1, max_size=6))
def test_scores_are_those_of_the_definition(corpus: list[tuple[str, str, str, str]]) -> None:
    hypotheses, sources, first, second = (list(column) for column in zip(*corpus, strict=True))
    for references in ([first], [first, second]):
        assert score_edits(hypotheses, sources, references)[:3] == pytest.approx(
            by_the_definition(hypotheses, sources, references))


@given(st.lists(st.tuples(*[SENTENCES] * 3), min_size=1, max_size=6))
def test_a_reference_is_perfect_and_repeating_one_changes_nothing(corpus: list[tuple[str, str, str]]) -> None:
    hypotheses, sources, references = (list(column) for column in zip(*corpus, strict=True))
    assert score_edits(references, sources, [references]).f05 == 100
    assert score_edits(hypotheses, sources, [references])[:3] == score_edits(hypotheses, sources, [references] * 3)[:3]


def test_the_signature_names_the_scorer() -> None:
    assert score_edits(["a"], ["a"], [["a"], ["b"]]).edits_signature == \
        "edits|refs:2|case:mixed|tok:words|merge:adjacent|beta:0.5|version:2"


@pytest.mark.parametrize(("hypotheses", "references"), [
    (["a", "b"], [["a"]]),
    ([], [["a"]]),
    (["a"], [["a"], ["a", "b"]]),
    (["a"], [["a"], []]),
])
def test_unequal_numbers_of_sentences_are_refused(hypotheses: list[str], references: list[list[str]]) -> None:
    with pytest.raises(ValueError):
        score_edits(hypotheses, ["a"], references)


def test_long_sentences_are_aligned() -> None:
    draw = random.Random(5)
    source = [draw.choice("abcdefgh") for _ in range(300)]
    target = [*source[:100], "x", *source[100:200], *source[201:]]
    edits = edits_between(source, target)
    assert len(edits) == 2 and applied(source, edits) == target


def test_references_are_chosen_by_as_many_decimals_as_a_scorer_has() -> None:
    """Late in a corpus a sentence moves F0.5 by less than that, and then most right edits decide."""
    def edits(*numbers: int) -> set[Edit]:
        return {Edit(number, number + 1, ("x",)) for number in numbers}

    corpus = [(edits(*range(9000)), [edits(*range(9000))]), (edits(1, 2), [edits(*range(1, 9)), edits(1)])]
    exact, rounded = (count_edits(corpus, "any", decimals) for decimals in (None, 3))
    assert (exact.precision, exact.recall) == pytest.approx((100 * 9001 / 9002, 100))
    assert (rounded.precision, rounded.recall) == pytest.approx((100, 100 * 9002 / 9008))
