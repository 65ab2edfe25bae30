"""From the states of a draft to its tokens.

Without a chain (`model.token_chain`) they are independent: the best word of each. With one they are chosen one after
the other, each behind the one before it, among the few best words of its state alone. What is left to do in sequence is
so small that it is compiled for the CPU.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decoding.protocol import DraftingModel
from pipeline.decoding.top import best
from pipeline.model.token_chain import Links

SHORTLIST = 32
"""Words that a state alone proposes to the chain."""


def follow(model: DraftingModel, states: Tensor, last: Tensor) -> Tensor:
    """The tokens of a draft.

    Args:
        model: that made the states.
        states: (R, k, D).
        last: (R,), the tokens behind which they stand.

    Returns:
        (R, k).
    """
    logits = model.words(states)
    links = model.links(states)
    if links is None:
        return best(logits)
    compiled = states.device.type == "cpu" and states.dtype in (torch.float32, torch.float64)
    return (_compiled if compiled else one_by_one)(logits, states, links, last)


def one_by_one(logits: Tensor, states: Tensor, links: Links, last: Tensor) -> Tensor:
    """The tokens of chained states, on any device; `logits` (R, k, V) are those of the states alone."""
    ids = logits.topk(min(SHORTLIST, logits.shape[2])).indices
    tokens = []
    for place in range(states.shape[1]):
        inner = (links.states[:, place] + links.table[last]).relu_()
        state = torch.addmm(states[:, place], inner, links.outer)
        scores = torch.bmm(links.outputs[ids[:, place]], state.unsqueeze(2)).squeeze(2)
        last = ids[:, place].gather(1, scores.argmax(1, keepdim=True)).squeeze(1)
        tokens.append(last)
    return torch.stack(tokens, 1)


def _compiled(logits: Tensor, states: Tensor, links: Links, last: Tensor) -> Tensor:
    from pipeline.decoding.follow_kernel import follow_links  # numba: half a second to import
    drafted = torch.empty(states.shape[:2], dtype=torch.long)
    follow_links(_array(logits), _array(states), _array(links.states), _array(links.table), _array(links.outer),
                 _array(links.outputs), _array(last), min(SHORTLIST, logits.shape[2]), drafted.numpy())
    return drafted


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.contiguous().numpy()
