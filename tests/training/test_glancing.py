"""How many words are revealed, and which."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.families.glancing import glance


@given(st.lists(st.tuples(st.integers(0, 6), st.lists(st.booleans(), min_size=6, max_size=6)), min_size=1, max_size=5),
       st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 99))
def test_as_many_as_the_share_asks_for_and_as_there_are(rows: list[tuple[int, list[bool]]], share: float,
                                                        seed: int) -> None:
    torch.manual_seed(seed)
    wrong, words = torch.tensor([one for one, _ in rows]), torch.tensor([places for _, places in rows])
    shown = glance(wrong, words, share)
    assert shown.shape == words.shape and shown.dtype == torch.bool
    assert not (shown & ~words).any()
    assert shown.sum(1).tolist() == [min(sum(places), int(torch.tensor(one * share).round())) for one, places in rows]


def test_all_words_equally_often() -> None:
    """60,000 draws of 2 of 5 words, in a row of 8 places: six standard deviations are allowed."""
    torch.manual_seed(1)
    words = torch.tensor([True, False, True, True, False, True, True, False]).expand(60_000, -1)
    shown = glance(torch.full((60_000,), 4), words, 0.5).sum(0)
    assert shown[words[0]].tolist() == pytest.approx([60_000 * 2 / 5] * 5, abs=6 * (60_000 * 2 / 5 * 3 / 5) ** 0.5)
