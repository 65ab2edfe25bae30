"""Rules for one row that both engines call, against plain Python."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.ending import slots_before_end
from pipeline.engine.verdict import is_acceptable
from pipeline.vocabulary import PAD

GAINS = st.lists(st.tuples(st.integers(-9, 0), st.integers(-9, 0)), min_size=1, max_size=6)


@given(GAINS)
def test_the_best_of_all_endings_of_a_step(gains: list[tuple[int, int]]) -> None:
    by_word, by_end = np.array(gains, float).T.copy()
    totals = [by_word[:count].sum() + by_end[count:].sum() for count in range(len(gains) + 1)]
    assert slots_before_end(by_word, by_end) == totals.index(max(totals))  # with the fewest words, of equally good ones


@given(st.lists(st.tuples(st.sampled_from([PAD, 7, 8]), st.sampled_from([0.0, 0.5, 0.6]), st.integers(0, 3)),
                min_size=1, max_size=5))
def test_relaxed_acceptance_is_the_same_rule_on_tensors(drafted: list[tuple[int, float, int]]) -> None:
    found = is_acceptable.py_func(*map(torch.tensor, zip(*drafted, strict=True)), 2, 0.5)
    assert found.tolist() == [is_acceptable(*one, 2, 0.5) for one in drafted]
    assert found.tolist() == [token != PAD and gap <= 0.5 and above < 2 for token, gap, above in drafted]
