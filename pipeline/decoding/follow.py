"""From the states of a draft to its tokens.

Without a chain (`model.token_chain`) they are independent: the best word of each. With one they are chosen one after
the other, each behind the one before it, among the few best words of its state alone. What is left to do in sequence is
so small that it is compiled for the CPU.
"""

import torch
from torch import Tensor

from pipeline.decoding.protocol import DraftingModel
from pipeline.decoding.top import best, best_k
from pipeline.model.token_chain import Links

SHORTLIST = 8
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
    R, k, V = logits.shape
    _, ids = best_k(logits.view(R * k, V), min(SHORTLIST, V))
    ids = ids.view(R, k, -1)
    if states.device.type == "cpu" and states.dtype in (torch.float32, torch.float64):
        return _compiled(states, links, ids, last)
    tokens = []
    for place in range(k):
        inner = (links.states[:, place] + links.table[last]).relu_()
        state = torch.addmm(states[:, place], inner, links.outer)
        scores = torch.bmm(links.outputs[ids[:, place]], state.unsqueeze(2)).squeeze(2)
        last = ids[:, place].gather(1, scores.argmax(1, keepdim=True)).squeeze(1)
        tokens.append(last)
    return torch.stack(tokens, 1)


def _compiled(states: Tensor, links: Links, ids: Tensor, last: Tensor) -> Tensor:
    from pipeline.decoding.follow_kernel import follow_links  # numba: half a second to import
    tokens = torch.empty_like(ids[:, :, 0])
    read = [one.contiguous().numpy() for one in (states, *links, ids, last)]
    follow_links(*read, tokens.numpy())  # type: ignore[call-arg]  # numba's stub takes one argument
    return tokens
