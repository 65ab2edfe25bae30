"""What rows have accepted so far, and the judgement of what is drafted behind it (Ge et al. 2022, section 3.2)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.checks import Amount, Checked, Positive
from pipeline.model.top import best, compiles
from pipeline.vocabulary import PAD

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Acceptance(Checked):
    """When a proposed token is kept. By default only where it is the verifier's best: greedy search's output."""

    beta: Positive = 1
    """It must be among the verifier's beta best tokens (equation 8) …"""
    tau: Amount = 0.0
    """… and at most tau below the best one in log-probability (equation 9)."""

    @property
    def exact(self) -> bool:
        """Whether the result is greedy search's."""
        return self.beta == 1 or self.tau == 0


EXACT = Acceptance()


class Verdict(NamedTuple):
    """What became of a draft."""

    said: Tensor
    """(R, n + 1), what the verifier says in its place and behind it."""
    ends: Bools
    """(R,) whether a row has ended."""
    over: bool
    """Whether any row is over: has ended or met its limit."""
    gained: Tensor
    """(R,), the summed log-probability of what was accepted."""


class Prefix:
    """What R rows have accepted so far: a start symbol, and tokens behind it.

    What is counted is counted on the host, by compiled code; on another device that is the one look that a call takes
    at it.
    """

    def __init__(self, start: int, rows: int, room: int, device: torch.device) -> None:
        """Args:
            start: the start symbol.
            rows: R.
            room: tokens that a row may accept.
            device: of the networks.
        """
        self.words = np.full((rows, 1 + room), start)
        """(R, T): the start symbol, the accepted tokens, and anything behind them."""
        self.tokens = torch.from_numpy(self.words).to(device)
        """The same on the device."""
        self.counts, self.added = np.ones(rows, np.int64), np.ones(rows, np.int64)
        self.said: Tensor | None = None
        """(R, n + 1), what the verifier said in its last call: `new` accepted tokens, and its guesses at what follows,
        which it made behind drafts that were wrong."""
        self.hidden: Tensor | None = None
        """(R, n, D), the verifier's states in its last call, of which number `new` - 1 predicted the last token."""
        self.longest, self.level = 1, True
        """The longest of the lengths, and whether they are all equal."""

    @property
    def lengths(self) -> Tensor:
        """(R,), the start symbol counted."""
        return torch.from_numpy(self.counts.copy()).to(self.tokens.device)  # the counts go on changing

    @property
    def new(self) -> Tensor:
        """(R,) of these, how many the last call has added; at first the start symbol."""
        return torch.from_numpy(self.added).to(self.tokens.device)

    @property
    def last(self) -> Tensor:
        """(R, 1), the last token of every row."""
        if self.level:
            return self.tokens[:, self.longest - 1:self.longest]
        return self.tokens.gather(1, self.lengths.unsqueeze(1) - 1)

    def extend(self, logits: Tensor, draft: Tensor, acceptance: Acceptance, left: Ints, end: int) -> Verdict:
        """Judge a draft and accept what stands, up to the end symbol and to the tokens that rows may still accept.

        Args:
            logits: (R, n + 1, V), the verifier's in place of the draft and behind it.
            draft: (R, n) tokens, PAD where there is none.
            acceptance: of drafted tokens.
            left: (R,) tokens that a row may still accept, at least 1; changed.
            end: the end symbol.
        """
        from pipeline.engine.verdict import accept, settle  # numba: half a second that no other search needs
        ends, self.added = np.empty(len(draft), np.bool_), np.empty_like(self.counts)
        if compiles(logits):
            said, sums = np.empty(logits.shape[:2], np.int64), np.empty(len(draft))
            shortest, self.longest, over = settle(
                logits.numpy(), draft.numpy(), acceptance.beta, acceptance.tau, end, left, self.words, self.counts,
                self.added, ends, said, sums)
            self.said, gained = torch.from_numpy(said), torch.from_numpy(sums)
        else:
            self.said = _judge(logits, draft, acceptance)
            said, drafted = (one.cpu().contiguous().numpy() for one in (self.said, draft))
            shortest, self.longest, over = accept(said, drafted, end, left, self.words, self.counts, self.added, ends)
            gained = _log_probabilities(logits, self.said, self.added)
        self.level = shortest == self.longest
        if self.tokens.device.type != "cpu":  # there they are the same memory
            self.tokens.copy_(torch.from_numpy(self.words))
        return Verdict(self.said, ends, over, gained)

    def select(self, rows: Tensor) -> None:
        """Keep some rows."""
        kept = rows.cpu().numpy()
        self.words, self.counts, self.added = self.words[kept], self.counts[kept], self.added[kept]
        self.tokens = torch.from_numpy(self.words).to(self.tokens.device)
        self.said = None if self.said is None else self.said[rows]
        self.hidden = None if self.hidden is None else self.hidden[rows]
        self.longest = int(self.counts.max(initial=1))
        self.level = bool((self.counts == self.longest).all())


def _judge(logits: Tensor, draft: Tensor, acceptance: Acceptance) -> Tensor:
    """What the verifier says in place of a draft (R, n) and behind it, (R, n + 1), from its logits (R, n + 1, V)."""
    verdict = best(logits)
    if not acceptance.exact:
        n = draft.shape[1]
        alternatives = logits[:, :n]
        drafted = alternatives.gather(2, draft.unsqueeze(2))
        chosen = alternatives.gather(2, verdict[:, :n].unsqueeze(2))
        kept = ((alternatives > drafted).sum(2) < acceptance.beta) & (draft != PAD)
        kept &= (chosen - drafted).squeeze(2) <= acceptance.tau
        verdict[:, :n] = draft.where(kept, verdict[:, :n])
    return verdict


def _log_probabilities(logits: Tensor, tokens: Tensor, count: Ints) -> Tensor:
    """The summed log-probability of the first `count` (R,) of tokens (R, n) under logits (R, n, V)."""
    most = int(count.max())
    said = logits[:, :most].log_softmax(2).gather(2, tokens[:, :most].unsqueeze(2)).squeeze(2)
    if most > count.min():
        said = said.masked_fill(torch.from_numpy(np.arange(most) >= count[:, None]).to(said.device), 0)
    return said.sum(1)
