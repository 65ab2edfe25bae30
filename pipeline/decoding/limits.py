"""How long a translation may become: by its own source, never by its batch, never by a reference."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.errors import PipelineError
from pipeline.model.orders import Order
from pipeline.vocabulary import PAD


@dataclass(frozen=True)
class LengthLimit:
    """At most `ratio` * source pieces + `extra` words (source end symbol included), and never over `longest`."""

    ratio: float = 2.0
    extra: int = 10
    longest: int = 255

    def __post_init__(self) -> None:
        if self.ratio < 0 or self.extra < 0 or self.longest < 1 or self.ratio == self.extra == 0:
            raise PipelineError(f"length limit: ratio {self.ratio}, extra {self.extra}, longest {self.longest} "
                                "leave no room for a single word")

    def words(self, source: Tensor) -> Tensor:
        """(B,) words that the translations of the rows of `source` (B, S) may have."""
        pieces = (source != PAD).sum(1)
        return (pieces.double() * self.ratio + self.extra).long().clamp(1, self.longest)

    def steps(self, source: Tensor, order: Order) -> Tensor:
        """(B,) decoder steps that the rows of `source` (B, S) may take."""
        if len(source) == 1:  # searched so quickly that the operations below would be a tenth of the whole
            row, = source.tolist()
            return source.new_tensor([self._of(len(row) - row.count(PAD)) // order.width + 1])
        return torch.div(self.words(source), order.width, rounding_mode="floor") + 1

    def _of(self, pieces: int) -> int:
        """`words` of a source of so many pieces."""
        return min(max(int(pieces * self.ratio + self.extra), 1), self.longest)


def shortest_and_longest(steps: Tensor) -> tuple[int, int]:
    """The least and the most of (B,) steps; 0 where there are none."""
    found = steps.tolist()
    return min(found, default=0), max(found, default=0)
