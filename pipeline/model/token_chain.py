"""A chain between the tokens of a draft whose states were computed at once.

States of a block do not depend on their neighbours' tokens, so the tokens may not fit together. A small map lets every
state see the token before its own: in training the true one, in search the one just drafted. The sequentially dependent
heads of Ankner et al. (2024) do the same; here the states may also know their own position.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.model.top import best


class TokenChain(nn.Module):
    """h + W_o relu(W_h h + W_e e + b) for a state h and the embedding e of the token before its own; initially h."""

    def __init__(self, width: int, inner: int) -> None:
        """Args:
            width: D.
            inner: F, width between the maps.
        """
        super().__init__()
        self.scale = math.sqrt(width)  # as of all embeddings that enter the network
        self.of_state = nn.Linear(width, inner)
        self.of_previous = nn.Linear(width, inner, bias=False)
        self.outer = nn.Linear(inner, width, bias=False)
        nn.init.xavier_uniform_(self.of_state.weight)
        nn.init.xavier_uniform_(self.of_previous.weight)
        nn.init.zeros_(self.of_state.bias)
        nn.init.zeros_(self.outer.weight)

    def forward(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """States (N, D) and unscaled embeddings (N, D) of the tokens before theirs to new states (N, D)."""
        inner = (self.of_state(states) + self.of_previous(embeddings * self.scale)).relu()
        return states + self.outer(inner)


class ChainWeights(NamedTuple):
    """A chain and the output projection as search reads them, row by row."""

    of_state: Tensor
    """(D, F), the map of the states."""
    bias: Tensor
    """(F,), its bias."""
    table: Tensor
    """(V, F), what every token contributes to the state after it."""
    outer: Tensor
    """(F, D)."""
    outputs: Tensor
    """(D, V), the projection onto the vocabulary."""

    def project(self, states: Tensor) -> Tensor:
        """States (R, D) to logits (R, V), not rounded."""
        return states @ self.outputs


def chain_weights(chain: TokenChain | None, embeddings: Tensor, projection: Tensor) -> ChainWeights:
    """The weights of a chain, given embeddings and output embeddings of all words, both (V, D).

    Without a chain, F = 0: states stay as they are.
    """
    if chain is None:
        (V, D), new = projection.shape, projection.new_empty
        between = new(D, 0), new(0), new(V, 0), new(0, D)
    else:
        between = (chain.of_state.weight.t(), chain.of_state.bias, chain.of_previous(embeddings * chain.scale),
                   chain.outer.weight.t())
    return ChainWeights._make(part.detach().contiguous() for part in (*between, projection.t()))


def chained_tokens(weights: ChainWeights, states: Tensor, last: Tensor, project: Callable[[Tensor], Tensor]) -> Tensor:
    """The best tokens (R, k) of states (R, k, D), each given the one before it.

    Args:
        weights: of the chain.
        states: of the tokens.
        last: (R,), the tokens before the first ones.
        project: from states (R, D) of the chain to logits (R, V).
    """
    of_states = states @ weights.of_state + weights.bias
    tokens = []
    for place in range(states.shape[1]):
        inner = (of_states[:, place] + weights.table[last]).relu_()
        last = best(project(torch.addmm(states[:, place], inner, weights.outer)))
        tokens.append(last)
    return torch.stack(tokens, 1) if tokens else last.new_empty(len(last), 0)
