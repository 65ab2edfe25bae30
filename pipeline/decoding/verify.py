"""Draft and verify (Ge et al. 2022): guess several tokens, score them all in one call, keep those that stand.

A drafter proposes what comes next; one call of the verifier says what it would have said behind each of the proposed
tokens. Every row of the batch keeps its own longest prefix that the verifier agrees with and the verifier's token
behind it, and forgets the rest. Whatever the drafter proposes, the result is that of greedy search (equation 7), token
by token and in any batch, in at most as many calls.

Relaxed acceptance (GAD++, equations 8 and 9) keeps a proposed token that is almost as probable as the best one. What
comes out is then no longer greedy search's.

In floating point, a call of ten tokens rounds differently from ten calls of one: where two words are as good as equally
probable, the other one may win.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.decoding.top import best
from pipeline.errors import PipelineError
from pipeline.vocabulary import PAD


@dataclass(frozen=True)
class Acceptance:
    """When a proposed token is kept. By default only where it is the verifier's best: greedy search's output."""

    beta: int = 1
    """It must be among the verifier's beta best tokens (equation 8) …"""
    tau: float = 0.0
    """… and at most tau below the best one in log-probability (equation 9)."""

    def __post_init__(self) -> None:
        if self.beta < 1:
            raise PipelineError(f"beta: {self.beta} must be at least 1")
        if not self.tau >= 0:
            raise PipelineError(f"tau: {self.tau} must be 0 or more")

    @property
    def exact(self) -> bool:
        """Whether the result is greedy search's."""
        return self.beta == 1 or self.tau == 0


EXACT = Acceptance()


class Prefix:
    """What R rows have accepted so far: a start symbol, and tokens behind it."""

    def __init__(self, start: int, end: int, rows: Tensor, room: int) -> None:
        """Args:
            start, end: the start symbol and the end symbol.
            rows: (R,) any integers, for their number, type and device.
            room: tokens that a row may accept.
        """
        self.tokens = rows.new_full((len(rows), 1 + room + 1), end)
        """(R, 1 + room + 1): the start symbol, tokens, end symbols behind them, and a column for what nobody wants."""
        self.tokens[:, 0] = start
        self.lengths = torch.ones_like(rows)
        """(R,), the start symbol counted."""
        self.new = self.lengths
        """(R,) of these, how many the last call has added; at first the start symbol."""
        self.longest, self.level = 1, True
        """The longest of the lengths, and whether they are all equal."""
        self.hidden: Tensor | None = None
        """(R, n, D), the verifier's states in its last call, of which number `new` - 1 predicted the last token."""

    @property
    def last(self) -> Tensor:
        """(R, 1), the last token of every row."""
        if self.level:
            return self.tokens[:, self.longest - 1:self.longest]
        return self.tokens.gather(1, self.lengths.unsqueeze(1) - 1)

    def extend(self, tokens: Tensor, inside: Tensor) -> None:
        """Add to every row those of its tokens (R, n) that are `inside` (R, n), the first ones."""
        columns = torch.arange(tokens.shape[1], device=tokens.device) + self.lengths.unsqueeze(1)
        self.tokens.scatter_(1, columns.where(inside, self.tokens.shape[1] - 1), tokens)
        self.new = inside.sum(1)
        self.lengths = self.lengths + self.new

    def select(self, rows: Tensor) -> None:
        """Keep some rows."""
        self.tokens, self.lengths, self.new = self.tokens[rows], self.lengths[rows], self.new[rows]
        self.hidden = None if self.hidden is None else self.hidden[rows]

    def look(self) -> None:
        """Bring `longest` and `level` up to date, the one look at the device that a call costs."""
        lengths = self.lengths.tolist()
        self.longest, self.level = max(lengths), min(lengths) == max(lengths)


class Drafter(Protocol):
    """Proposes tokens for the rows of one search, which it has been told about when it was made."""

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        """Propose what comes next.

        Args:
            prefix: what every row has accepted so far.
            room: as many tokens at most.

        Returns:
            (R, n <= room) tokens, PAD behind what a row proposes; n may be 0.
        """

    def select(self, rows: Tensor) -> None:
        """Keep some rows; the others have ended."""

    def calls(self, rounds: Tensor) -> Tensor:
        """Calls of its own network that a row took part in whose draft was asked for in `rounds` (B,) rounds."""


class Round(NamedTuple):
    """A draft and what became of it."""

    sentences: Tensor
    """(R,) places in the batch of those that were still alive."""
    draft: Tensor
    """(R, n) tokens, PAD where there is none."""
    verdict: Tensor
    """(R, n + 1), what the verifier says in their place and behind them: accepted up to `accepted`, void behind it."""
    accepted: Tensor
    """(R,) tokens of the verdict that were kept."""


@dataclass(frozen=True)
class Verification:
    """How a search by draft and verification went."""

    rounds: list[Round]
    drafter_calls: Tensor
    """(B,) calls of the drafter's network."""


class Nothing:
    """The drafter that proposes nothing: greedy search, by this loop."""

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        return prefix.tokens[:, :0]

    def select(self, rows: Tensor) -> None:
        pass

    def calls(self, rounds: Tensor) -> Tensor:
        return torch.zeros_like(rounds)


@dataclass(frozen=True)
class Settings:
    """Nothing is drafted, so nothing is to be set: the plainest way to greedy search's output."""


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Greedy search by this loop, with nothing drafted."""
    return verify(model, Nothing(), source, model.encode(source), limit)


@torch.inference_mode()
def verify(verifier: Model, drafter: Drafter, source: Tensor, memory: Any, limit: LengthLimit,
           acceptance: Acceptance = EXACT) -> Hypotheses:
    """Translate by draft and verification.

    Args:
        verifier: an ordered model that generates one token a step.
        drafter: made for these rows.
        source: (B, S) ids, padded with PAD behind.
        memory: of the verifier, of the source.
        limit: the longest output.
        acceptance: of proposed tokens.

    Returns:
        Hypotheses as greedy search's, with the `verification`; calls are the verifier's.

    Raises:
        PipelineError: the verifier generates several tokens a step, or the drafter proposed what is no token.
    """
    if verifier.order.width != 1:
        raise PipelineError(f"draft and verify: the verifier generates in the order {verifier.order.name}, "
                            f"{verifier.order.width} words a step; choose one of one word a step")
    B, end = len(source), verifier.order.end
    steps = limit.steps(source, verifier.order)
    longest = int(steps.max()) if B else 0
    state = verifier.start(memory, capacity=longest + 1)
    slots = source.new_full((B, longest), end)
    scores = torch.zeros(B, device=source.device, dtype=torch.float64)
    calls = torch.zeros_like(steps)
    ended = torch.zeros(B, dtype=torch.bool, device=source.device)
    rounds: list[Round] = []

    # Of the rows that are still alive: their sentences, limits, tokens and scores.
    sentences, most, score = torch.arange(B, device=source.device), steps + 1, scores
    prefix = Prefix(verifier.order.starts[0], end, steps, longest)
    while len(sentences):
        draft = drafter.draft(prefix, longest - prefix.longest)
        logits = _call(verifier, prefix.last, draft, state)
        verdict, agreed = _judge(logits, draft, acceptance)
        inside, ends = _accepted(verdict, agreed, prefix.lengths, most, end)
        said = (logits.gather(2, verdict.unsqueeze(2)).squeeze(2) - logits.logsumexp(2)).masked_fill(~inside, 0)
        score = score + said.sum(1)
        prefix.extend(verdict, inside)
        prefix.hidden = state.hidden
        rounds.append(Round(sentences, draft, verdict, prefix.new))
        over = ends | (prefix.lengths == most)
        if bool(over.any()):
            done, alive = sentences[over], (~over).nonzero().squeeze(1)
            slots[done] = prefix.tokens[over, 1:-1]
            scores[done], ended[done], calls[done] = score[over], ends[over], len(rounds)
            if len(alive) == 0:
                break
            sentences, most, score = sentences[alive], most[alive], score[alive]
            prefix.select(alive)
            state.select(alive)
            drafter.select(alive)
        prefix.look()
        state.rewind(prefix.longest - 1 if prefix.level else prefix.lengths - 1)
    words, lengths = verifier.order.restore(slots)
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scores.unsqueeze(1), ended.unsqueeze(1), calls,
                      Verification(rounds, drafter.calls(calls)))


def _call(verifier: Model, last: Tensor, draft: Tensor, state: Any) -> Tensor:
    """The verifier's logits behind the last token and behind every token of the draft, (R, n + 1, V)."""
    try:
        return verifier.step(torch.cat((last, draft), 1), state)
    except IndexError:
        raise PipelineError(f"draft and verify: the drafter proposed token {int(draft.max())} or {int(draft.min())}, "
                            "which the verifier does not know; they need the same vocabulary") from None


def _judge(logits: Tensor, draft: Tensor, acceptance: Acceptance) -> tuple[Tensor, Tensor]:
    """What the verifier says in place of a draft (R, n) and behind it, (R, n + 1), and of how many it agrees, (R,)."""
    n, verdict = draft.shape[1], best(logits)
    if acceptance.exact:
        agreed = verdict[:, :n] == draft
    else:
        alternatives = logits[:, :n]
        drafted = alternatives.gather(2, draft.unsqueeze(2))
        chosen = alternatives.gather(2, verdict[:, :n].unsqueeze(2))
        agreed = ((alternatives > drafted).sum(2) < acceptance.beta) & (draft != PAD)
        agreed &= (chosen - drafted).squeeze(2) <= acceptance.tau
        verdict[:, :n] = draft.where(agreed, verdict[:, :n])
    return verdict, agreed.long().cumprod(1).sum(1)


def _accepted(verdict: Tensor, agreed: Tensor, lengths: Tensor, most: Tensor, end: int) -> tuple[Tensor, Tensor]:
    """Which of (R, n + 1) tokens are kept: up to the first that was not agreed on, the end and the limit.

    Args:
        verdict, agreed: see `_judge`.
        lengths, most: (R,) of the prefixes before, and at the limit.
        end: the end symbol.

    Returns:
        (R, n + 1) booleans, and (R,) whether the row has ended.
    """
    ends = verdict == end
    kept = torch.minimum(agreed + 1, most - lengths).unsqueeze(1)
    inside = (torch.arange(verdict.shape[1], device=verdict.device) < kept) & (ends.cumsum(1) - ends.long() == 0)
    return inside, (ends & inside).any(1)
