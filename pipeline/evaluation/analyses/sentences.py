"""Sentences with a known translation, in padded batches."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.corpus.batches import Rows
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Ids
from pipeline.vocabulary import PAD


class Sentences(NamedTuple):
    """B sentences of similar length."""

    source: Tensor
    """(B, S) ids, EOS after each, then PAD."""
    target: Tensor
    """(B, N) words without an end symbol, padded with PAD."""


def make_batches(pairs: Sequence[tuple[Ids, Ids]], *, rows: int, longest: int,
                 device: torch.device) -> tuple[list[Sentences], int]:
    """Batches of all pairs that have a target of 1 to `longest` - 1 words; longer sources are cut.

    Args:
        pairs: (source ids, target ids).
        rows: sentences per batch.
        longest: tokens that the networks accept.
        device: of the tensors.

    Returns:
        The batches, longest sources first, and how many pairs are not in them.
    """
    kept = [pair for pair in pairs if 0 < len(pair[1]) < longest]
    batches = []
    for chosen in _by_length([source for source, _ in kept], rows):
        source = pad_sources([kept[row][0] for row in chosen], longest)
        target = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(np.asarray(kept[row][1], np.int64)) for row in chosen], batch_first=True,
            padding_value=PAD)
        batches.append(Sentences(source.to(device), target.to(device)))
    return batches, len(pairs) - len(kept)


def make_sources(sources: Sequence[Ids], *, rows: int, longest: int, device: torch.device) -> list[Tensor]:
    """Batches (B, S) of all sources, longest first; see `make_batches`."""
    return [pad_sources([sources[row] for row in chosen], longest).to(device) for chosen in _by_length(sources, rows)]


def _by_length(sources: Sequence[Ids], rows: int) -> Iterator[Rows]:
    """Indices of sources of similar length, batch by batch."""
    order = np.argsort([-len(source) for source in sources], kind="stable")
    return (order[start:start + rows] for start in range(0, len(order), rows))
