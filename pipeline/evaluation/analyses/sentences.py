"""Sentences with a known translation: in padded batches, and their probability."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.corpus.batches import Rows
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Ids
from pipeline.evaluation.bootstrap import Floats
from pipeline.model.transformer import Transformer
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
    for chosen in by_length([source for source, _ in kept], rows):
        source = pad_sources([kept[row][0] for row in chosen], longest)
        target = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(np.asarray(kept[row][1], np.int64)) for row in chosen], batch_first=True,
            padding_value=PAD)
        batches.append(Sentences(source.to(device), target.to(device)))
    return batches, len(pairs) - len(kept)


def make_sources(sources: Sequence[Ids], *, rows: int, longest: int, device: torch.device) -> list[Tensor]:
    """Batches (B, S) of all sources, longest first; see `make_batches`."""
    return [pad_sources([sources[row] for row in chosen], longest).to(device) for chosen in by_length(sources, rows)]


@torch.inference_mode()
def sentence_losses(network: Transformer, batches: Sequence[Sentences]) -> Floats:
    """The negative log-probability of each target, and its tokens.

    The end symbols that fill a step after the first one carry no information of their own, so they do not count.

    Args:
        network: of an order.
        batches: of N sentences.

    Returns:
        (N, 2) of the sentences in the order of the batches.
    """
    parts = []
    for source, target in batches:
        lengths = (target != PAD).sum(1)
        arranged = network.order.arrange(target, lengths)
        logits = network(source, arranged)
        chosen = logits.double().log_softmax(2).gather(2, arranged.unsqueeze(2)).squeeze(2)
        counted = torch.arange(arranged.shape[1], device=target.device) <= lengths.unsqueeze(1)
        parts.append(torch.stack([-chosen.masked_fill(~counted, 0.0).sum(1), lengths + 1.0], 1))
    found: Floats = torch.cat(parts).double().cpu().numpy()
    return found


def by_length(sources: Sequence[Ids], rows: int) -> Iterator[Rows]:
    """Indices of sources of similar length, batch by batch."""
    order = np.argsort([-len(source) for source in sources], kind="stable")
    return (order[start:start + rows] for start in range(0, len(order), rows))
