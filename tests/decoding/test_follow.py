"""Chained drafts: the compiled way and the plain way find the same tokens, those of a search through the formula."""

import pytest
import torch
from torch import Tensor

from pipeline.decoding.follow import SHORTLIST, follow, one_by_one
from pipeline.model.token_chain import Links

V, D, F = 50, 6, 9


class Chained:
    """A drafting model that is a few random matrices."""

    def __init__(self, dtype: torch.dtype, chained: bool = True) -> None:
        torch.manual_seed(4)
        self.outputs = torch.randn(V, D, dtype=dtype)
        self.of_state = torch.randn(D, F, dtype=dtype)
        self.table, self.outer = torch.randn(V, F, dtype=dtype) * 2, torch.randn(F, D, dtype=dtype)
        self.chained = chained

    def words(self, states: Tensor) -> Tensor:
        return states @ self.outputs.t()

    def links(self, states: Tensor) -> Links | None:
        return Links(states @ self.of_state, self.table, self.outer, self.outputs) if self.chained else None


def by_formula(model: Chained, states: Tensor, last: int) -> list[int]:
    """Of one row, in plain words."""
    tokens = []
    for state in states:
        listed = model.words(state).sort(descending=True, stable=True).indices[:SHORTLIST].tolist()
        moved = state + torch.relu(state @ model.of_state + model.table[last]) @ model.outer
        last = max(listed, key=lambda word: float(moved @ model.outputs[word]))
        tokens.append(last)
    return tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "k"), [(1, 1), (1, 7), (5, 4)])
def test_both_ways_are_the_formula(dtype: torch.dtype, rows: int, k: int) -> None:
    model, states, last = Chained(dtype), torch.randn(rows, k, D, dtype=dtype), torch.arange(7, 7 + rows)
    expected = [by_formula(model, row, int(token)) for row, token in zip(states, last, strict=True)]
    links = model.links(states)
    assert links is not None
    assert follow(model, states, last).tolist() == expected
    assert one_by_one(model.words(states), states, links, last).tolist() == expected


def test_the_token_before_matters() -> None:
    model, states = Chained(torch.float64), torch.randn(40, 1, D, dtype=torch.float64)
    behind = [follow(model, states, torch.full((40,), token)) for token in (8, 9)]
    assert not torch.equal(*behind)
    alone = Chained(torch.float64, chained=False)
    assert torch.equal(*(follow(alone, states, torch.full((40,), token)) for token in (8, 9)))


def test_a_word_that_is_not_shortlisted_is_not_chosen() -> None:
    model, states = Chained(torch.float64), torch.randn(60, 1, D, dtype=torch.float64)
    found = follow(model, states, torch.full((60,), 9))
    ranks = (model.words(states[:, 0]) > model.words(states[:, 0]).gather(1, found)).sum(1)
    assert int(ranks.max()) < SHORTLIST
    best = (states[:, 0] + torch.relu(states[:, 0] @ model.of_state + model.table[9]) @ model.outer) @ model.outputs.t()
    assert not torch.equal(best.argmax(1), found[:, 0])  # some of which would be


def test_reduced_precision_takes_the_plain_way() -> None:
    model, states = Chained(torch.bfloat16), torch.randn(3, 4, D, dtype=torch.bfloat16)
    links = model.links(states)
    assert links is not None
    last = torch.tensor([7, 8, 9])
    assert torch.equal(follow(model, states, last), one_by_one(model.words(states), states, links, last))
