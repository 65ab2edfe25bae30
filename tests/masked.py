"""Masked models for tests: small random ones with something to feed them with, and ones that are written down."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pipeline.engine.door import open_engine
from pipeline.model.masked import MaskedTransformer
from pipeline.model.settings import NetworkSettings
from pipeline.model.state import Ints
from pipeline.vocabulary import MASK, PAD

Row = tuple[int, ...]
Script = Callable[[int, Row], Tensor]
"""From the iteration and the tokens of one row to probabilities (N, V)."""

_SETTINGS: dict[str, Any] = {"width": 16, "heads": 2, "feed_forward": 32, "encoder_layers": 2, "decoder_layers": 2,
                             "max_length": 24, "dropout": 0.0, "tied_embeddings": "none"}


def masked(*, dtype: torch.dtype = torch.float64, vocabulary: int = 20, seed: int = 2,
           **changes: Any) -> MaskedTransformer:
    """A masked Transformer in evaluation mode; its length varies enough with the source for a search to show it."""
    torch.manual_seed(seed)
    network = MaskedTransformer(NetworkSettings(**{**_SETTINGS, **changes}), vocabulary, vocabulary)
    with torch.no_grad():
        network.excess.weight.mul_(3)
    opened: MaskedTransformer = open_engine(network.to(dtype).eval())
    return opened


def half_hidden(*lengths: int, vocabulary: int = 20) -> Tensor:
    """(B, N) random words, about half of them hidden by MASK, padded."""
    generator = torch.Generator().manual_seed(99 + sum(lengths))
    batch = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = torch.randint(7, vocabulary, (length,), generator=generator)
        row[:length].masked_fill_(torch.rand(length, generator=generator) < 0.5, MASK)
    return batch


@dataclass
class ScriptedState:
    """Knows how far it was moved."""

    length: int = 0

    def select(self, rows: Tensor) -> None:
        raise NotImplementedError("Mask-Predict keeps all rows where they are")

    def rewind(self, lengths: Ints | int) -> None:
        assert lengths == 0
        self.length = 0


@dataclass
class Scripted:
    """A masked model whose lengths and words are written down, and which remembers what it was fed."""

    length_probabilities: list[list[float]]
    script: Script
    fed: list[list[Row]] = field(default_factory=list)
    """Rows of every call, without padding."""
    kind: str = "masked"

    def encode(self, source: Tensor) -> Tensor:
        return torch.tensor(self.length_probabilities, dtype=torch.float64)

    def lengths(self, memory: Tensor) -> Tensor:
        return memory.log()

    def start(self, memory: Tensor, beams: int = 1, capacity: int = 64) -> ScriptedState:
        return ScriptedState()

    def step(self, tokens: Tensor, state: ScriptedState) -> Tensor:
        assert state.length == 0
        state.length = tokens.shape[1]
        rows = [tuple(token for token in row if token != PAD) for row in tokens.tolist()]
        logits = torch.full((*tokens.shape, 12), 0.5, dtype=torch.float64)  # of padding, which is ignored
        for at, row in enumerate(rows):
            if row:
                logits[at, :len(row)] = self.script(len(self.fed), row)
        self.fed.append(rows)
        return logits.log()


def only(*lengths: int, among: int = 24) -> list[list[float]]:
    """Each sentence has one length for certain."""
    return [[float(place == length) for place in range(among)] for length in lengths]


def certain(row: Row, *words: tuple[int, float]) -> Tensor:
    """(N, V): a word and its probability at each place, what is left spread over all others."""
    probabilities = torch.empty(len(row), 12, dtype=torch.float64)
    for place, (word, probability) in zip(probabilities, words, strict=True):
        place[:] = (1 - probability) / 11
        place[word] = probability
    return probabilities
