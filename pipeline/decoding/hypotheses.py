"""What every decoder returns."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from pipeline.decoding.verify import Verification


@dataclass(frozen=True)
class Hypotheses:
    """The N best translations of B sentences, in reading order, best first.

    N is 1 for greedy. A sentence with fewer than N hypotheses repeats none: the missing ones have score -inf.
    """

    tokens: Tensor
    """(B, N, T) word ids without start or end symbols, padded with PAD."""
    lengths: Tensor
    """(B, N) words."""
    scored: Tensor | Callable[[], Tensor]
    """Their `scores`, or what computes them, where a search can do without. It holds ids alone and no state of the
    search, so that many hypotheses may be kept (`rescoring.scored_later`)."""
    ended: Tensor
    """(B, N) booleans: false where no end symbol came before the length limit and the rest was cut. Mask-Predict and
    the count model need no end, and the lattice has no other: true wherever there is a hypothesis."""
    calls: Tensor
    """(B,) decoder calls that the sentence took part in, counted in the loop."""
    verification: "Verification | None" = None
    """How drafts fared, where the search drafts and verifies."""

    @cached_property
    def scores(self) -> Tensor:
        """(B, N) log-probability of the slots, end symbols included, divided by the length penalty where there is one.

        Mask-Predict: the mean over the words, each as it was last predicted. The count model: without an end symbol.
        """
        return self.scored if isinstance(self.scored, Tensor) else self.scored()
