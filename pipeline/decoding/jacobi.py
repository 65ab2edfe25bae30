"""Parallel Jacobi decoding (Santilli et al. 2023): a model's own predictions of later words are its next draft.

Greedy search solves y_i = argmax p(. | y_<i, x) for one word after the other. Jacobi's method solves for all words of a
block at once: it starts from any words, puts in the words of the last iteration, and repeats. A word whose predecessors
no longer change does not change either, so every iteration settles at least one more word, and the result is greedy
search's in at most as many iterations (Proposition 1).

This is draft and verify with the model's own last iterate. Settled words are accepted, cached and never computed again
(the paper computes the whole block again until nothing changes, and once more to detect that), and the word after the
settled ones comes with the same call.

* PJ (Algorithm 1): one block, as long as the translation is expected to be; `block` = 0.
* PGJ (Algorithm 2): blocks of b words, each solved before the next one is begun.
* HGJ (Algorithm 3): PGJ up to the expected length, then word by word; `hybrid`.

The expected length is estimated from the source's; a translation may be shorter or longer, and nothing is cut.
`counts_jacobi.py` starts from the count model's words and length.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline.checks import Amount, Checked, Natural, Positive, Refused
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Prefix
from pipeline.decoding.protocol import Model
from pipeline.decoding.traits import Traits
from pipeline.decoding.verify import Drafter, verify
from pipeline.engine.sentence import Found, Sentence
from pipeline.model.state import Ints
from pipeline.vocabulary import EOS, PAD

TRAITS = Traits(width=1, in_one_call=True)
STARTS = ("padding", "source")


@dataclass(frozen=True)
class Blocks(Checked):
    """Which words are solved at once."""

    block: Natural = 0
    """b, words per block; 0: the whole expected translation (PJ)."""
    hybrid: bool = False
    """Whether words are predicted one by one after the expected end of the translation (HGJ)."""


@dataclass(frozen=True)
class Settings(Blocks):
    """Parallel Jacobi decoding."""

    start: str = "padding"
    """What a block starts from: `padding`, as in the paper, or the `source`'s words at the same positions."""
    ratio: Amount = 1.0
    """The expected length in words is `ratio` times the source's plus `extra`."""
    extra: Positive = 1
    """Words, the end symbol included; see `ratio`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start not in STARTS:
            raise Refused(f"start: {self.start!r} is unknown; choose one of {', '.join(STARTS)}")


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Greedy search's translation in fewer calls; see `verify` for arguments and result."""
    words = source.masked_fill(source == EOS, PAD)
    expected = torch.ceil(settings.ratio * (words != PAD).sum(1)).long() + settings.extra
    start = words if settings.start == "source" else words[:, :0]
    return verify(model, LastIterate(expected, start, settings), source, model.encode(source), limit)


class LastIterate(Drafter):
    """Proposes, for the rest of a block, the verifier's predictions in the last call."""

    def __init__(self, expected: Tensor, start: Tensor, blocks: Blocks) -> None:
        """Args:
            expected: (B,) lengths, the end symbol included.
            start: (B, N) words that blocks start from, PAD where there is none, and after them.
            blocks: which words are solved at once.
        """
        self._blocks, self._expected, self._start = blocks, expected.cpu().numpy(), start.cpu().numpy()
        self.block = blocks.block or int(self._expected.max(initial=0))
        self._proposed = np.zeros(len(start), np.int64)  # in the last draft; later predictions follow padding

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        from pipeline.engine.drafts import last_iterate  # numba: half a second that no other search needs

        def propose(row: int, draft: Ints) -> int:
            predicted = prefix.predicted[row, :self._proposed[row] + 1]
            self._proposed[row] = count = last_iterate(
                prefix.counts[row] - 1, self._blocks.block, self._blocks.hybrid, self._expected[row], self._start[row],
                predicted, prefix.added[row], draft)
            return int(count)
        return prefix.draft_rows(room, propose)

    def in_one_call(self, sentence: Sentence) -> Found | None:
        blocks = self._blocks
        return sentence.last_iterate(self.block, blocks.block, blocks.hybrid, int(self._expected[0]), self._start[0])

    def select(self, rows: Tensor) -> None:
        kept = rows.numpy()
        self._expected, self._start = self._expected[kept], self._start[kept]
        self._proposed = self._proposed[kept]
