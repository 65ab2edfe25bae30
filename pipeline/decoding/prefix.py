"""What rows have accepted so far, and the verdict on what is drafted after it (Ge et al. 2022, section 3.2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.checks import Amount, Checked, Positive
from pipeline.engine.waiting import on_device
from pipeline.model.state import Ints
from pipeline.model.top import best, compiles
from pipeline.vocabulary import PAD

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Acceptance(Checked):
    """When a proposed token is kept. By default only where it is the verifier's best: greedy search's output."""

    beta: Positive = 1
    """It must be among the verifier's beta best tokens (equation 8)."""
    tau: Amount = 0.0
    """It must be at most tau below the best one in log-probability (equation 9)."""

    @property
    def exact(self) -> bool:
        """Whether the result is greedy search's."""
        return self.beta == 1 or self.tau == 0

    @property
    def limits(self) -> tuple[int, float]:
        """Beta and tau as `engine.verdict.is_acceptable` reads them; zeros where only the best token is accepted."""
        return (0, 0.0) if self.exact else (self.beta, self.tau)


EXACT = Acceptance()


class Verdict(NamedTuple):
    """What became of a draft."""

    predicted: Tensor
    """(R, n + 1), the verifier's predictions in its place and after it; an acceptable drafted token is one."""
    ends: Bools
    """(R,) whether a row has ended."""
    over: bool
    """Whether any row is over: has ended or reached its limit."""
    gained: Tensor
    """(R,), the summed log-probability of what was accepted."""


class Prefix:
    """What R rows have accepted so far: a start symbol and the tokens after it.

    Tokens are counted on the host, by compiled code; on another device that is the one synchronisation of a call.
    """

    def __init__(self, start: int, rows: int, room: int, device: torch.device) -> None:
        """Args:
            start: the start symbol.
            rows: R.
            room: tokens that a row may accept.
            device: of the networks.
        """
        self.words = np.full((rows, 1 + room), start)
        """(R, T): the start symbol and the accepted tokens; the rest is undefined."""
        self.tokens = torch.from_numpy(self.words).to(device)
        """The same on the device."""
        self.counts = np.ones(rows, np.int64)
        """(R,), the number of these tokens."""
        self.added = np.ones(rows, np.int64)
        """(R,), how many of them the last call has added; at first the start symbol."""
        self.predicted: Ints = np.empty((rows, 0), np.int64)
        """(R, n + 1), the verifier's predictions in its last call: the `added` tokens, and those after wrong drafts."""
        self.hidden: Tensor | None = None
        """(R, n + 1, D), the verifier's states in its last call; number `added` - 1 predicted the last token."""
        self.longest, self.is_uniform = 1, True
        """The highest of the counts, and whether they are all equal."""

    @property
    def lengths(self) -> Ints | int:
        """The counts, (R,), or one number if they are all equal."""
        return self.longest if self.is_uniform else self.counts.copy()  # the counts go on changing

    @property
    def last(self) -> Tensor:
        """(R, 1), the last token of every row."""
        if self.is_uniform:
            return self.tokens[:, self.longest - 1:self.longest]
        return self.tokens.gather(1, on_device(self.counts - 1, self.tokens.device).unsqueeze(1))

    def draft_rows(self, room: int, propose: Callable[[int, Ints], int]) -> Tensor:
        """The drafts of all rows by a rule for one row.

        Args:
            room: the most tokens of a draft.
            propose: from a row and its (room,) places, into the first of which it writes a draft, to their number.

        Returns:
            (R, n <= room), PAD after shorter drafts.
        """
        drafts = np.full((len(self.counts), room), PAD)
        widest = max([propose(row, draft) for row, draft in enumerate(drafts)], default=0)
        return on_device(drafts[:, :widest].copy(), self.tokens.device)

    def extend(self, logits: Tensor, draft: Tensor, acceptance: Acceptance, remaining: Ints, end: int) -> Verdict:
        """Judge a draft and accept its beginning, up to the end symbol and to the tokens that rows may still accept.

        Args:
            logits: (R, n + 1, V), the verifier's in place of the draft and after it.
            draft: (R, n) tokens, PAD where there is none.
            acceptance: of drafted tokens.
            remaining: (R,) tokens that each row may still accept, at least 1; changed.
            end: the end symbol.
        """
        from pipeline.engine.verdict import accept, settle  # numba: half a second that no other search needs
        ends, self.added = np.empty(len(draft), np.bool_), np.empty_like(self.counts)
        if compiles(logits):
            self.predicted, sums = np.empty(logits.shape[:2], np.int64), np.empty(len(draft))
            shortest, self.longest, over = settle(
                logits.numpy(), draft.numpy(), *acceptance.limits, end, remaining, self.words, self.counts, self.added,
                ends, self.predicted, sums)
            predicted, gained = torch.from_numpy(self.predicted), torch.from_numpy(sums)
        else:
            predicted = _predict(logits, draft, acceptance)
            n = draft.shape[1]
            both = torch.cat((predicted, draft), 1).cpu().numpy()  # what a round waits for
            self.predicted, drafted = (np.ascontiguousarray(one) for one in (both[:, :n + 1], both[:, n + 1:]))
            shortest, self.longest, over = accept(
                self.predicted, drafted, end, remaining, self.words, self.counts, self.added, ends)
            gained = _log_probabilities(logits, predicted, self.added)
        self.is_uniform = shortest == self.longest
        if self.tokens.device.type != "cpu":  # there they are the same memory
            self.tokens.copy_(torch.from_numpy(self.words), non_blocking=True)
        return Verdict(predicted, ends, over, gained)

    def select(self, rows: Tensor) -> None:
        """Keep some rows, whose indices are on the CPU."""
        kept = rows.numpy()
        self.words, self.counts = self.words[kept], self.counts[kept]
        self.added, self.predicted = self.added[kept], self.predicted[kept]
        self.tokens = on_device(self.words, self.tokens.device)
        self.hidden = None if self.hidden is None else self.hidden[on_device(kept, self.hidden.device)]
        self.longest = int(self.counts.max(initial=1))
        self.is_uniform = bool((self.counts == self.longest).all())


def _predict(logits: Tensor, draft: Tensor, acceptance: Acceptance) -> Tensor:
    """The verifier's predictions in place of a draft (R, n) and after it, (R, n + 1), from logits (R, n + 1, V)."""
    predicted = best(logits)
    if not acceptance.exact:
        from pipeline.engine.verdict import is_acceptable
        n = draft.shape[1]
        alternatives = logits[:, :n]
        drafted = alternatives.gather(2, draft.unsqueeze(2))
        chosen = alternatives.gather(2, predicted[:, :n].unsqueeze(2))
        kept = is_acceptable.py_func(draft, (chosen - drafted).squeeze(2), (alternatives > drafted).sum(2),
                                     acceptance.beta, acceptance.tau)
        predicted[:, :n] = draft.where(kept, predicted[:, :n])
    return predicted


def _log_probabilities(logits: Tensor, tokens: Tensor, count: Ints) -> Tensor:
    """The summed log-probability of the first `count` (R,) of tokens (R, n) under logits (R, n, V)."""
    most = int(count.max())
    log_probabilities = logits[:, :most].log_softmax(2, dtype=torch.promote_types(logits.dtype, torch.float32))
    found = log_probabilities.gather(2, tokens[:, :most].unsqueeze(2)).squeeze(2)
    if most > count.min():
        found = found.masked_fill(on_device(np.arange(most) >= count[:, None], found.device), 0)
    return found.sum(1)
