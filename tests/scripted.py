"""A model whose logits are written down: it has the three methods and remembers what it was fed."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.model.orders import Order
from pipeline.model.state import Ints
from pipeline.vocabulary import PAD

Row = tuple[int, ...]
Script = Callable[[Row, Row], Tensor]
"""From the source pieces and the slots so far to the next step's logits (z, V)."""


@dataclass
class ScriptedState:
    """The source and all that was fed, a row each."""

    rows: list[tuple[Row, Row]]
    hidden: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]

    def rewind(self, lengths: Ints | int) -> None:
        wanted = [lengths] * len(self.rows) if isinstance(lengths, int) else lengths.tolist()
        assert all(0 <= length <= len(fed) for (_, fed), length in zip(self.rows, wanted, strict=True))
        self.rows = [(source, fed[:length]) for (source, fed), length in zip(self.rows, wanted, strict=True)]


@dataclass
class Scripted:
    order: Order
    script: Script
    fed: list[int] = field(default_factory=list)
    """Rows of every step."""
    kind: str = "ordered"

    def encode(self, source: Tensor) -> list[Row]:
        return [tuple(piece for piece in row if piece != PAD) for row in source.tolist()]

    def start(self, memory: list[Row], beams: int = 1, capacity: int = 64) -> ScriptedState:
        return ScriptedState([(source, ()) for source in memory for _ in range(beams)])

    def step(self, tokens: Tensor, state: ScriptedState) -> Tensor:
        z, (R, n) = self.order.width, tokens.shape
        assert len(state.rows) == R and n > 0 and n % z == 0
        state.rows = [(source, fed + tuple(new))
                      for (source, fed), new in zip(state.rows, tokens.tolist(), strict=True)]
        assert all(fed[:z] == self.order.starts for _, fed in state.rows)
        self.fed.append(R)
        return torch.stack([torch.cat([self.script(source, fed[z:end]) for end in range(len(fed) - n + z,
                                                                                       len(fed) + 1, z)])
                            for source, fed in state.rows])


def logits(*slots: dict[int, float], vocabulary: int = 12) -> Tensor:
    """(z, V) logits: those given, and all others very low."""
    rows = torch.full((len(slots), vocabulary), -30.0, dtype=torch.float64)
    for row, given in zip(rows, slots, strict=True):
        for word, value in given.items():
            row[word] = value
    return rows


def random_script(order: Order, words: int, seed: int, vocabulary: int) -> Script:
    """Random logits of a few words and the end symbol after every prefix; all other words are impossible."""
    live = [order.end, *range(7, 7 + words)]

    def script(source: Row, prefix: Row) -> Tensor:
        # Slot after slot, so that a prefix is a number in base V: no two prefixes share their logits.
        number = 0
        for word in (*source, *prefix):
            number = (number * vocabulary + word + 1) % (2**61 - 1)
        generator = torch.Generator().manual_seed((number * 31 + seed) % 2**63)
        rows = torch.full((order.width, vocabulary), -torch.inf, dtype=torch.float64)
        rows[:, live] = 2 * torch.randn(order.width, len(live), generator=generator, dtype=torch.float64)
        return rows
    return script
