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

UNAIDED = 0.25
"""Share of the states that do not see the token before theirs in training: search shortlists words by such states."""


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
        moved = self.outer(inner)
        if torch.is_grad_enabled():  # in training, also of a chain on a frozen network in evaluation mode
            moved = moved.masked_fill(torch.rand(len(states), 1, device=states.device) < UNAIDED, 0)
        return states + moved


class Links(NamedTuple):
    """A chain as search reads it."""

    states: Tensor
    """(R, k, F), what states contribute."""
    table: Tensor
    """(V, F), what every token contributes to the state behind it."""
    outer: Tensor
    """(F, D)."""
    outputs: Tensor
    """(V, D), the words' output embeddings."""
