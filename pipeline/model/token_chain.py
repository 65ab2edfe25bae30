"""From states that were computed at once to tokens that follow one another.

States of a block do not know what their neighbours will say, and a draft is only as long as its tokens agree. A small
map therefore lets every state see the token before its own, in training the true one and in search the one just drafted
(as the sequentially dependent heads of Ankner et al. 2024, but also on top of states that know their own place in the
source). The states themselves are still computed at once.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipeline.model.top import best


class TokenChain(nn.Module):
    """h + W_o relu(W_h h + W_e e + b) for a state h and the embedding e of the token before its own; at first h."""

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
        """(N, D) states and unscaled embeddings (N, D) of the tokens before theirs, to (N, D)."""
        inner = (self.of_state(states) + self.of_previous(embeddings * self.scale)).relu()
        return states + self.outer(inner)


class Links(NamedTuple):
    """A chain as search reads it, laid out for reading by rows."""

    of_state: Tensor
    """(D, F) …"""
    bias: Tensor
    """… and (F,): what states contribute."""
    table: Tensor
    """(V, F), what every token contributes to the state behind it."""
    outer: Tensor
    """(F, D)."""
    outputs: Tensor
    """(D, V), the projection onto the vocabulary."""


def gather(chain: TokenChain | None, embeddings: Tensor, projection: Tensor) -> Links:
    """The links of a chain between words with these embeddings and output embeddings, both (V, D).

    Of no chain they are links that change nothing, with F = 0.
    """
    if chain is None:
        (V, D), new = projection.shape, projection.new_empty
        between = new(D, 0), new(0), new(V, 0), new(0, D)
    else:
        between = (chain.of_state.weight.t(), chain.of_state.bias, chain.of_previous(embeddings * chain.scale),
                   chain.outer.weight.t())
    return Links._make(part.detach().contiguous() for part in (*between, projection.t()))


def follow(links: Links, states: Tensor, last: Tensor) -> Tensor:
    """The best token of each state after the one before it.

    Args:
        links: between the tokens.
        states: (R, k, D).
        last: (R,), the tokens after which the drafts stand.

    Returns:
        (R, k).
    """
    of_states = states @ links.of_state + links.bias
    tokens = []
    for place in range(states.shape[1]):
        inner = (of_states[:, place] + links.table[last]).relu_()
        last = best(torch.addmm(states[:, place], inner, links.outer) @ links.outputs)
        tokens.append(last)
    return torch.stack(tokens, 1) if tokens else last.new_empty(len(last), 0)
