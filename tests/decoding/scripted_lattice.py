"""A lattice model whose lengths, candidates and steps are written down, and which remembers what it was asked."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.vocabulary import BOS, EOS, LENGTH, PAD, UNK

Row = tuple[int, ...]


class Sentence(NamedTuple):
    """What the model knows of one source."""

    length: int
    """Predicted words."""
    words: list[dict[int, float]]
    """The candidates of every position and their log P(y | x, t), best first."""
    steps: Tensor
    """(N + 1, V, V): [t, i, j] = log P(j in slot t | i before it); slot 0 follows BOS, and EOS ends."""


@dataclass
class ScriptedLattice:
    """Whatever no search may look at is NaN: steps from and to padding, and those after a sentence's positions."""

    script: Callable[[Row], Sentence]
    asked: list[tuple[int, ...]] = field(default_factory=list)
    """Sizes of every call: (B, N, k) for candidates, (B, N) for edges."""
    kind: str = "lattice"

    def length(self, source: Tensor) -> Tensor:
        return torch.tensor([sentence.length for sentence in self.encode(source)], dtype=torch.long)

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        self.asked.append((len(source), positions, k))
        words = torch.full((len(source), positions, k), PAD)
        scores = torch.full(words.shape, -torch.inf, dtype=torch.float64)
        words[:, :, 0], scores[:, :, 0] = UNK, -9.0  # proposed after all positions that the script knows
        for row, sentence in enumerate(self.encode(source)):
            for t, known in enumerate(sentence.words[:positions]):
                words[row, t], scores[row, t] = PAD, -torch.inf
                for i, (word, score) in enumerate(list(known.items())[:k]):
                    words[row, t, i], scores[row, t, i] = word, score
        return words, scores

    def encode(self, source: Tensor) -> list[Sentence]:
        return [self.script(tuple(piece for piece in row if piece != PAD)) for row in source.tolist()]

    def edges(self, memory: list[Sentence], candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (B, N, K), nan = candidates.shape, torch.nan
        self.asked.append((B, N))
        first, inner, end = (torch.full(shape, nan, dtype=torch.float64) for shape in (
            (B, K), (B, N - 1, K, K), (B, N, K)))
        for row, sentence in enumerate(memory):
            words = candidates[row]
            first[row] = sentence.steps[0, BOS, words[0]]
            for t in range(min(N, len(sentence.words))):
                end[row, t] = sentence.steps[t + 1, words[t], EOS]
                if t > 0:
                    inner[row, t - 1] = sentence.steps[t, words[t - 1]][:, words[t]]
        padding = candidates == PAD
        inner = inner.masked_fill(padding[:, :-1].unsqueeze(3) | padding[:, 1:].unsqueeze(2), nan)
        return first.masked_fill(padding[:, 0], nan), inner, end.masked_fill(padding, nan)


def random_sentence(source: Row, *, positions: int = 8, candidates: int = 4, vocabulary: int = 12) -> Sentence:
    """Made from the pieces of the source alone: 1 to `candidates` words a position and normalised steps."""
    generator = torch.Generator().manual_seed(sum(piece * 31 ** place for place, piece in enumerate(source)) % 2**31)
    words: list[dict[int, float]] = []
    for _ in range(positions):
        count = int(torch.randint(1, candidates + 1, (1,), generator=generator))
        some = torch.randperm(vocabulary - LENGTH - 1, generator=generator)[:count] + LENGTH + 1
        scores = torch.randn(count, generator=generator, dtype=torch.float64).log_softmax(0)
        words.append(dict(zip(some.tolist(), scores.sort(descending=True).values.tolist(), strict=True)))
    steps = torch.randn(positions + 1, vocabulary, vocabulary, generator=generator, dtype=torch.float64).mul_(2)
    return Sentence(min(len(source), positions), words, steps.log_softmax(2))
