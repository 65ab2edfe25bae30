"""Sentences of random ids."""

import torch
from torch import Tensor

from pipeline.vocabulary import EOS, PAD


def sources(*lengths: int, vocabulary: int = 20) -> Tensor:
    """(B, S) random ids with an end symbol each, padded."""
    generator = torch.Generator().manual_seed(sum(lengths))
    batch = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = torch.randint(7, vocabulary, (length,), generator=generator)
        row[length - 1] = EOS
    return batch
