"""Splits by hash: they never move, whatever the order, and keep their shares."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.layout import SPLITS
from pipeline.sources.splits import assign_groups, assign_string

shares = st.floats(0.01, 0.45)


@settings(max_examples=60, deadline=None)
@given(names=st.sets(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=60),
       validation=shares, test=shares, data=st.data())
def test_groups_do_not_depend_on_order_and_fill_every_split(names: set[str], validation: float, test: float,
                                                            data: st.DataObject) -> None:
    split_of = assign_groups(names, validation, test)
    assert split_of == assign_groups(data.draw(st.permutations(sorted(names))), validation, test)
    counts = {split: list(split_of.values()).count(split) for split in SPLITS}
    assert min(counts.values()) >= 1
    assert abs(counts["validation"] - validation * len(names)) <= 1


@pytest.mark.parametrize(("names", "validation", "test", "expected"), [
    ("abc", 0.5, 0.4, (1, 1, 1)), ("abcd", 0.9, 0.05, (1, 2, 1)), ("abcd", 0.05, 0.9, (1, 1, 2))])
def test_no_share_is_so_large_that_a_split_is_empty(names: str, validation: float, test: float,
                                                    expected: tuple[int, int, int]) -> None:
    splits = list(assign_groups(names, validation, test).values())
    assert tuple(map(splits.count, SPLITS)) == expected


def test_the_splits_of_a_release_never_move() -> None:
    # Golden values from coreutils' sha256sum: a changed hash would silently move test strings into train.
    split_of = assign_groups([f"group {index}" for index in range(20)], 0.1, 0.1)
    assert {name: split for name, split in split_of.items() if split != "train"} == {
        "group 8": "validation", "group 18": "validation", "group 11": "test", "group 5": "test"}
    assert [assign_string(f"string {index}", 0.3, 0.3) for index in range(6)] == [
        "train", "validation", "test", "test", "train", "test"]


def test_strings_keep_the_shares() -> None:
    assigned = [assign_string(str(number), 0.1, 0.3) for number in range(4000)]
    for split, share in zip(SPLITS, (0.6, 0.1, 0.3), strict=True):
        assert abs(assigned.count(split) / 4000 - share) < 0.03
