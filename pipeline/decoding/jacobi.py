"""Parallel Jacobi decoding (Santilli et al. 2023): a model's own guesses at the words to come are its next draft.

Greedy search solves y_i = argmax p(. | y_<i, x) for one word after the other. Jacobi's method solves for all words of a
block at once: it starts from anything, puts the words of the last iteration in, and repeats. What stands behind words
that do not change any more does not change either, so every iteration settles at least one word more, and the result is
greedy search's in at most as many iterations (Proposition 1).

That is draft and verification by the model's own last iterate. What has settled is accepted, cached and never computed
again (the paper computes the whole block again until nothing changes, and once more to see that), and the word behind
what has settled comes with the same call.

* PJ (Algorithm 1): one block, as long as the translation is expected to be; `block` = 0.
* PGJ (Algorithm 2): blocks of b words, each solved before the next one is begun.
* HGJ (Algorithm 3): PGJ up to the expected length, then word by word; `hybrid`.

The expected length is a guess made of the source's; a translation may end before it or behind it, and nothing is cut.
`counts_jacobi.py` starts from the count model's words and length.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline.checks import Amount, Checked, Natural, Positive
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Prefix
from pipeline.decoding.protocol import Model
from pipeline.decoding.verify import verify
from pipeline.engine.sentence import Sentence
from pipeline.errors import PipelineError
from pipeline.vocabulary import EOS, PAD

STARTS = ("padding", "source")


@dataclass(frozen=True)
class Blocks(Checked):
    """What is solved at once."""

    block: Natural = 0
    """b, words of a block; 0: the whole translation, as long as it is expected to be (PJ)."""
    hybrid: bool = False
    """Whether blocks end where the translation is expected to (HGJ)."""


@dataclass(frozen=True)
class Settings(Blocks):
    """Parallel Jacobi decoding."""

    start: str = "padding"
    """What a block starts from: `padding`, as in the paper, or the `source`'s words in the same places."""
    ratio: Amount = 1.0
    """The expected length in words: so many times the source's …"""
    extra: Positive = 1
    """… and so many more, the end symbol among them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start not in STARTS:
            raise PipelineError(f"start: {self.start!r} is unknown; choose one of {', '.join(STARTS)}")


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Greedy search's translation in fewer calls; see `verify` for what comes back.

    Args:
        model: an ordered model of one word a step.
        source: (B, S) ids, padded with PAD behind.
        limit: the longest output.
        settings: blocks, and what they start from.
    """
    words = source.masked_fill(source == EOS, PAD)
    expected = torch.ceil(settings.ratio * (words != PAD).sum(1)).long() + settings.extra
    start = words if settings.start == "source" else words[:, :0]
    return verify(model, LastIterate(expected, start, settings), source, model.encode(source), limit)


class LastIterate:
    """Proposes, for the rest of a block, what the verifier said there in the last call."""

    def __init__(self, expected: Tensor, start: Tensor, blocks: Blocks) -> None:
        """Args:
            expected: (B,) lengths, the end symbol among the words.
            start: (B, N) words that blocks start from, PAD where there is none, and behind them.
            blocks: what is solved at once.
        """
        self._blocks, self._device = blocks, expected.device
        self._expected, self._start = expected.cpu().numpy(), start.cpu().numpy()
        self._proposed = np.zeros(len(start), np.int64)  # in the last draft; what was said behind it answers padding

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        settled = prefix.counts - 1
        ends = self._expected
        if self._blocks.block:
            ends = (settled // self._blocks.block + 1) * self._blocks.block
            if self._blocks.hybrid:
                ends = np.where(settled < self._expected, ends, settled)
        # The last word of a block is what the verifier says behind the last word of the draft.
        counts = np.clip(ends - settled - 1, 0, room)
        ahead = np.arange(int(counts.max(initial=0)))
        draft = _take(self._start, settled[:, None] + ahead)
        if prefix.said is not None:
            known = prefix.added[:, None] + ahead
            draft = np.where(known <= self._proposed[:, None], _take(prefix.said.cpu().numpy(), known), draft)
        self._proposed = counts
        return torch.from_numpy(np.where(ahead < counts[:, None], draft, PAD)).to(self._device)

    def in_one_call(self, sentence: Sentence) -> int | None:
        blocks = self._blocks
        return sentence.last_iterate(blocks.block, blocks.hybrid, int(self._expected[0]), self._start[0])

    def select(self, rows: Tensor) -> None:
        kept = rows.cpu().numpy()
        self._expected, self._start = self._expected[kept], self._start[kept]
        self._proposed = self._proposed[kept]

    def calls(self, rounds: Tensor) -> Tensor:
        return torch.zeros_like(rounds)


def _take(words: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The words (R, N) in places (R, n) of their rows; PAD beyond them."""
    if not words.shape[1]:
        return np.full(places.shape, PAD)
    return np.where(places < words.shape[1], np.take_along_axis(words, np.minimum(places, words.shape[1] - 1), 1), PAD)
