"""Sentences with a known translation, in padded batches."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.corpus.batches import EvaluationBatches
from pipeline.corpus.datamodule import pad_sources
from pipeline.corpus.pairs import Ids
from pipeline.vocabulary import PAD


class Sentences(NamedTuple):
    """B sentences of like length."""

    source: Tensor
    """(B, S) ids, EOS behind each, then PAD."""
    target: Tensor
    """(B, N) words without an end symbol, padded with PAD."""


def make_batches(pairs: Sequence[tuple[Ids, Ids]], *, rows: int, longest: int,
                 device: torch.device) -> tuple[list[Sentences], int]:
    """Batches of all pairs that have a target of 1 to `longest` - 1 words; longer sources are cut.

    Args:
        pairs: (source ids, target ids).
        rows: sentences a batch.
        longest: tokens that the networks take.
        device: of the tensors.

    Returns:
        The batches, longest sources first, and how many pairs are not in them.
    """
    kept = [pair for pair in pairs if 0 < len(pair[1]) < longest]
    lengths = np.array([len(source) for source, _ in kept], np.int64)
    batches = []
    for chosen in EvaluationBatches(lengths, rows=rows):
        sources, targets = zip(*(kept[row] for row in chosen.rows), strict=True)
        target = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(np.asarray(ids, np.int64)) for ids in targets], batch_first=True, padding_value=PAD)
        batches.append(Sentences(pad_sources(sources, longest).to(device), target.to(device)))
    return batches, len(pairs) - len(kept)
