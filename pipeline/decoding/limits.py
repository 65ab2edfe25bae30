"""The greatest length of a translation, which depends on its own source alone, not on its batch or a reference."""

from dataclasses import dataclass

from torch import Tensor

from pipeline.errors import PipelineError
from pipeline.model.orders import Order
from pipeline.vocabulary import PAD


@dataclass(frozen=True)
class LengthLimit:
    """At most `ratio` * source pieces + `extra` words (source end symbol included), and at most `longest`.

    A search step by step takes as many whole steps as hold these words and an end symbol. So in an order of z words per
    step, a translation may have up to z - 1 words more, and up to z more if it is cut.
    """

    ratio: float = 2.0
    extra: int = 10
    longest: int = 255

    def __post_init__(self) -> None:
        if self.ratio < 0 or self.extra < 0 or self.longest < 1 or self.ratio == self.extra == 0:
            raise PipelineError(f"length limit: ratio {self.ratio}, extra {self.extra}, longest {self.longest} "
                                "leave no room for a single word")

    def words(self, source: Tensor) -> Tensor:
        """The greatest numbers of words (B,) for the rows of `source` (B, S), before whole steps are taken."""
        return source.new_tensor(self._words(source))

    def steps(self, source: Tensor, order: Order) -> Tensor:
        """The greatest numbers of decoder steps (B,) for the rows of `source` (B, S)."""
        return source.new_tensor([words // order.width + 1 for words in self._words(source)])

    def _words(self, source: Tensor) -> list[int]:
        pieces = [len(row) - row.count(PAD) for row in source.tolist()]  # quicker than tensors for a single row
        return [min(max(int(count * self.ratio + self.extra), 1), self.longest) for count in pieces]


def shortest_and_longest(steps: Tensor) -> tuple[int, int]:
    """The smallest and the largest number of steps (B,); 0 if there is none."""
    found = steps.tolist()
    return min(found, default=0), max(found, default=0)
