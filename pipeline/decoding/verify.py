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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.errors import PipelineError
from pipeline.model.top import best, compiles
from pipeline.vocabulary import PAD

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
        from pipeline.decoding.verify_kernel import accept, settle  # numba: half a second that no other search needs
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
    """(R, n + 1), what the verifier says in their place and behind them; void behind what is accepted."""
    accepted: Tensor
    """(R,) tokens of the verdict that were kept."""


@dataclass(frozen=True)
class Verification:
    """How a search by draft and verification went."""

    exact: bool
    """Whether it promises greedy search's output."""
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
    B, end, device = len(source), verifier.order.end, source.device
    steps = limit.steps(source, verifier.order).cpu().numpy()
    longest = int(steps.max(initial=0))
    state = verifier.start(memory, capacity=longest)
    slots, calls, ended = np.full((B, longest), end), np.zeros(B, np.int64), np.zeros(B, bool)
    scores = torch.zeros(B, device=device, dtype=torch.float64)
    rounds: list[Round] = []

    # Of the rows that are still alive: their sentences, the tokens that they may still accept, and their scores.
    sentences, left, score = np.arange(B), steps, scores
    prefix = Prefix(verifier.order.starts[0], B, longest, device)
    while len(sentences):
        # What a row proposes must not depend on the other rows' limits, only on what the verifier can read.
        draft = drafter.draft(prefix, limit.longest + 1 - prefix.longest)
        logits = _call(verifier, prefix.last, draft, state)
        verdict = prefix.extend(logits, draft, acceptance, left, end)
        prefix.hidden = state.hidden
        score = score + verdict.gained
        rounds.append(Round(torch.from_numpy(sentences), draft, verdict.said, torch.from_numpy(prefix.added)))
        if verdict.over:
            over = verdict.ends | (left == 0)
            done, alive = torch.from_numpy(over).to(device), torch.from_numpy((~over).nonzero()[0]).to(device)
            inside = np.arange(longest) < prefix.counts[over, None] - 1
            slots[sentences[over]] = np.where(inside, prefix.words[over, 1:], end)
            scores[torch.from_numpy(sentences[over]).to(device)] = score[done]
            ended[sentences[over]], calls[sentences[over]] = verdict.ends[over], len(rounds)
            if len(alive) == 0:
                break
            sentences, left, score = sentences[~over], left[~over], score[alive]
            prefix.select(alive)
            state.select(alive)
            drafter.select(alive)
        state.rewind(prefix.longest - 1 if prefix.level else prefix.lengths - 1)
    words, lengths = verifier.order.restore(torch.from_numpy(slots).to(device))
    drawn = torch.from_numpy(calls).to(device)
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scores.unsqueeze(1),
                      torch.from_numpy(ended).to(device).unsqueeze(1), drawn,
                      Verification(acceptance.exact, rounds, drafter.calls(drawn)))


def _call(verifier: Model, last: Tensor, draft: Tensor, state: Any) -> Tensor:
    """The verifier's logits behind the last token and behind every token of the draft, (R, n + 1, V)."""
    try:
        return verifier.step(torch.cat((last, draft), 1), state)
    except IndexError:
        if draft.numel() == 0:
            raise
        raise PipelineError(f"draft and verify: the drafter proposed token {int(draft.max())} or {int(draft.min())}, "
                            "which the verifier does not know; they need the same vocabulary") from None


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
