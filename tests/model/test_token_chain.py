"""Chained drafts: compiled code and torch find the same tokens, those of the formula."""

import pytest
import torch
from torch import Tensor

from pipeline.engine.packing import pack_chain
from pipeline.engine.reading import ALONE
from pipeline.engine.token_chain import choose_chained
from pipeline.model.token_chain import ChainWeights, TokenChain, chain_weights, chained_tokens

V, D, F = 50, 8, 12


def chained(dtype: torch.dtype = torch.float64, inner: int = F) -> tuple[TokenChain, Tensor, Tensor, ChainWeights]:
    """A random chain, the embeddings of its words, their output embeddings, and its weights."""
    torch.manual_seed(4)
    chain = TokenChain(D, inner).to(dtype)
    torch.nn.init.normal_(chain.outer.weight)
    embeddings, outputs = torch.randn(V, D, dtype=dtype), torch.randn(V, D, dtype=dtype)
    return chain, embeddings, outputs, chain_weights(chain, embeddings, outputs)


def compiled(weights: ChainWeights, states: Tensor, last: Tensor, rounded: bool = False) -> Tensor:
    """`chained_tokens` by compiled code."""
    packed = pack_chain(*(part.numpy() for part in weights), rounded=rounded, rounded_projection=rounded)
    assert packed is not None
    tokens = torch.empty(states.shape[:2], dtype=torch.long)
    choose_chained(states.numpy(), last.numpy(), packed, tokens.numpy(), ALONE)
    return tokens


@torch.no_grad()
def by_formula(states: Tensor, last: int, chain: TokenChain, embeddings: Tensor, outputs: Tensor) -> list[int]:
    """Of one row, as training reads it."""
    tokens = []
    for state in states:
        last = int((outputs @ chain(state.unsqueeze(0), embeddings[last:last + 1])[0]).argmax())
        tokens.append(last)
    return tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "k"), [(1, 1), (1, 7), (3, 4), (4, 2), (9, 4), (2, 0)])
def test_both_engines_compute_the_formula(dtype: torch.dtype, rows: int, k: int) -> None:
    chain, embeddings, outputs, weights = chained(dtype)
    states, last = torch.randn(rows, k, D, dtype=dtype), torch.arange(7, 7 + rows)
    expected = [by_formula(row, int(token), chain, embeddings, outputs)
                for row, token in zip(states, last, strict=True)]
    by_torch = chained_tokens(weights, states, last, weights.project)
    assert by_torch.tolist() == compiled(weights, states, last).tolist() == expected


def test_rounded_it_is_nearly_the_same() -> None:
    """Seldom a token, and never a nonsensical one: its score is within a rounding of the best."""
    *_, outputs, weights = chained()
    states, last = torch.randn(3, 1, D, dtype=torch.float64), torch.tensor([7, 8, 9])
    for row in range(3):
        one, before = states[row:row + 1], last[row:row + 1]
        inner = (one[:, 0] @ weights.of_state + weights.bias + weights.table[before]).relu()
        scores = (torch.addmm(one[:, 0], inner, weights.outer) @ outputs.t())[0]
        found = int(compiled(weights, one, before, rounded=True))
        assert scores[found] > scores.max() - 2e-2 * scores.abs().max()


def test_the_token_before_matters() -> None:
    *_, weights = chained()
    states = torch.randn(40, 1, D, dtype=torch.float64)
    after = [chained_tokens(weights, states, torch.full((40,), token), weights.project) for token in (8, 9)]
    assert not torch.equal(*after)


def test_inner_widths_that_are_not_compiled() -> None:
    *_, weights = chained(inner=9)
    assert pack_chain(*(part.numpy() for part in weights), rounded=False, rounded_projection=False) is None
