"""Sentences of random ids, and the words of hypotheses."""

import torch
from hypothesis import strategies as st
from torch import Tensor

from pipeline.corpus.padding import pad_sources
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.vocabulary import EOS, PAD

BATCHES = st.lists(st.lists(st.integers(7, 19), max_size=10), min_size=1, max_size=9).map(
    lambda rows: pad_sources(rows, 48))
"""Of one to nine sentences of up to ten pieces."""


def sources(*lengths: int, vocabulary: int = 20) -> Tensor:
    """(B, S) random ids with an end symbol each, padded."""
    generator = torch.Generator().manual_seed(sum(lengths))
    batch = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = torch.randint(7, vocabulary, (length,), generator=generator)
        row[length - 1] = EOS
    return batch


def words(found: Hypotheses) -> list[list[list[int]]]:
    """Of every sentence, the words of each hypothesis."""
    return [[row[:length] for row, length in zip(rows, lengths, strict=True)]
            for rows, lengths in zip(found.tokens.tolist(), found.lengths.tolist(), strict=True)]
