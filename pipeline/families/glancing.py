"""Glancing: in training, a one-shot model is shown some words of its target (Qian et al. 2021, section 3.2)."""

import torch
from torch import Tensor


def glance(wrong: Tensor, words: Tensor, share: float) -> Tensor:
    """Random words to reveal: of each target, a share of the number of its wrong predictions.

    Args:
        wrong: (…) wrong predictions per target or block.
        words: (…, N), true for the places whose word can be revealed.
        share: of the number of wrong predictions, 0 to 1.

    Returns:
        (…, N) booleans, true only for words; all of them, where they are fewer than asked for.
    """
    noise = torch.rand(words.shape, device=words.device).masked_fill(~words, torch.inf)
    rank = noise.argsort(dim=-1, stable=True).argsort(-1)
    return words & (rank < (wrong * share).round().unsqueeze(-1))
