"""Every network that an export may meet, and what its tests feed it."""

import itertools
from typing import Any

import torch

from pipeline.model.settings import ACTIVATIONS, NORMS, POSITIONS, TIES
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD, SPECIALS

EVERY_NETWORK: list[dict[str, Any]] = [
    {"norm": norm, "tied_embeddings": tied, "activation": activation, "positions": positions}
    for norm, tied, activation, positions in itertools.product(NORMS, TIES, ACTIVATIONS, POSITIONS)]
LONGEST = 48
"""Tokens that the tiny networks take."""


def name_of(network: dict[str, Any]) -> str:
    return "-".join(network.values())


def enliven(network: Transformer) -> Transformer:
    """Give biases and norms values of their own and layers a say beside the residual sum, in place.

    A new network's biases are 0 and its norms 1, whichever is taken for which, and tied to its embeddings it repeats
    one word.
    """
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        network.projection.weight[network.order.end].div_(6)
        for name, parameter in network.named_parameters():
            if parameter.dim() == 1 or name.endswith("learned"):
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
            elif not name.endswith(("embedding.weight", "projection.weight")):
                parameter.mul_(2)
    return network


def sources(vocabulary: int) -> torch.Tensor:
    """(6, 9) ids, padded; the second has no word."""
    ids = torch.randint(len(SPECIALS), vocabulary, (6, 9), generator=torch.Generator().manual_seed(4))
    for row, length in zip(ids, (9, 1, 4, 9, 7, 3), strict=True):
        row[length - 1:] = PAD
        row[length - 1] = EOS
    return ids
