"""Alignment error rate by hand, and against counting every possible link one by one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.alignment_error_rate import ErrorRate, Link, error_rate
from pipeline.errors import PipelineError

POSITIONS = range(3)
LINKS = st.sets(st.tuples(st.sampled_from(POSITIONS), st.sampled_from(POSITIONS)))
PAIRS = st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4)

Sets = list[set[Link]]


def count(sets: list[tuple[set[Link], ...]]) -> tuple[int, int, int, int]:
    """|A|, |S|, |A ∩ S| and |A ∩ P|, cell by cell."""
    found_links = sure_links = found_sure = found_possible = 0
    for sure, possible, found in sets:
        for cell in ((i, j) for i in POSITIONS for j in POSITIONS):
            is_sure, is_found = cell in sure, cell in found
            found_links += is_found
            sure_links += is_sure
            found_sure += is_found and is_sure
            found_possible += is_found and (is_sure or cell in possible)
    return found_links, sure_links, found_sure, found_possible


@given(PAIRS)
def test_it_equals_counting(pairs: list[tuple[set[Link], set[Link], set[Link]]]) -> None:
    A, S, AS, AP = count(list(pairs))
    sure, possible, found = (list(side) for side in zip(*pairs, strict=True))
    if not S:
        with pytest.raises(PipelineError, match="no sure link"):
            error_rate(sure, possible, found)
        return
    assert error_rate(sure, possible, found) == pytest.approx(ErrorRate(
        float(1 - Fraction(AS + AP, A + S)), float(Fraction(AP, A)) if A else 0.0, float(Fraction(AS, S))))


@pytest.mark.parametrize(("found", "expected"), [
    ([{(0, 0), (1, 1)}, {(0, 1)}], ErrorRate(0, 1, 1)),
    ([{(0, 0), (1, 1), (1, 0)}, {(0, 1)}], ErrorRate(0, 1, 1)),  # a possible link does no harm
    ([set(), set()], ErrorRate(1, 0, 0)),
    ([{(1, 1)}, set()], ErrorRate(0.5, 1, 1 / 3)),
    ([{(0, 1)}, {(0, 0)}], ErrorRate(1, 0, 0)),
    ([{(0, 0), (0, 1)}, {(0, 1), (2, 2)}], ErrorRate(1 - 4 / 7, 0.5, 2 / 3)),
])
def test_by_hand(found: Sets, expected: ErrorRate) -> None:
    sure, possible = [{(0, 0), (1, 1)}, {(0, 1)}], [{(1, 0)}, set()]
    assert error_rate(sure, possible, found) == pytest.approx(expected)


def test_pairs_are_counted_together_and_not_averaged() -> None:
    many, one = {(i, i) for i in range(9)}, {(0, 0)}
    assert error_rate([many, one], [many, one], [many, set()]).recall == 0.9


def test_the_gold_alone_decides_what_a_transposed_alignment_is_worth() -> None:
    gold: Sets = [{(0, 1), (1, 2)}]
    assert error_rate(gold, gold, [{(1, 0), (2, 1)}]).aer == 1


def test_sides_of_unequal_length_are_refused() -> None:
    with pytest.raises(PipelineError, match="2 sentence pairs with sure links, 2 with possible ones, 1 to rate"):
        error_rate([{(0, 0)}, {(0, 0)}], [set(), set()], [{(0, 0)}])
