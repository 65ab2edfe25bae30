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

    Greedy search has N = 1. Where a sentence has fewer than N hypotheses, the missing ones have score -inf.
    """

    tokens: Tensor
    """(B, N, T) word ids without start or end symbols, padded with PAD."""
    lengths: Tensor
    """(B, N) words."""
    scored: Tensor | Callable[[], Tensor]
    """The `scores`, or a function that computes them, if the search does not need them. The function holds ids and not
    the state of the search, so that many hypotheses can be kept (`rescoring.scored_later`)."""
    ended: Tensor
    """(B, N) booleans: false where the length limit cut a hypothesis before an end symbol, or where it is shorter than
    every length that the count model or the lattice predicts. Mask-Predict cuts nothing: true for every hypothesis."""
    calls: Tensor
    """(B,) decoder calls that the sentence took part in, counted in the loop."""
    verification: "Verification | None" = None
    """Which drafted tokens were accepted, if the search drafts and verifies."""

    @cached_property
    def scores(self) -> Tensor:
        """(B, N) log-probabilities of the slots, end symbols included, divided by the length penalty if there is one.

        Mask-Predict: means over the words, each as last predicted. The count model has no end symbol.
        """
        return self.scored if isinstance(self.scored, Tensor) else self.scored()

    def best_words(self) -> list[list[int]]:
        """The word ids of the best hypothesis of each sentence, without padding."""
        rows, lengths = self.tokens[:, 0].tolist(), self.lengths[:, 0].tolist()
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]
