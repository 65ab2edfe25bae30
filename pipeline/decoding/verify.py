"""Draft and verify (Ge et al. 2022): guess several tokens, score them all in one call, keep those that stand.

A drafter proposes what comes next; one call of the verifier says what it would have said behind each of the proposed
tokens. Every row of the batch keeps its own longest prefix that the verifier agrees with and the verifier's token
behind it, and forgets the rest. Whatever the drafter proposes, the result is that of greedy search (equation 7), token
by token and in any batch, in at most as many calls.

Relaxed acceptance (GAD++, equations 8 and 9) keeps a proposed token that is almost as probable as the best one. What
comes out is then no longer greedy search's.

One sentence on a CPU is one compiled call, where its drafter has a loop of its own (`whole.py`); the loop here is for
everything else, and what that one is held to.

In floating point, a call of ten tokens rounds differently from ten calls of one: where two words are as good as equally
probable, the other one may win.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import EXACT, Acceptance, Prefix
from pipeline.decoding.protocol import Model
from pipeline.decoding.whole import Sentence, scored_later
from pipeline.errors import PipelineError

ALONE = True
"""One sentence is one compiled call."""


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


@runtime_checkable
class WholeDrafter(Drafter, Protocol):
    """A drafter with a compiled loop of its own, which searches one sentence in one call."""

    def whole(self, sentence: Sentence) -> int | None:
        """Translate a sentence, to the end.

        Returns:
            The calls of its own network; None where the loop cannot be had for this model, and nothing has happened.
        """


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
    drafter_calls: Tensor
    """(B,) calls of the drafter's network."""
    recorded: Callable[[], list[Round]]
    """Makes the rounds."""

    @cached_property
    def rounds(self) -> list[Round]:
        """One after the other; made when asked for, which most who search do not."""
        return self.recorded()


class Nothing:
    """The drafter that proposes nothing: greedy search, by this loop."""

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        return prefix.tokens[:, :0]

    def whole(self, sentence: Sentence) -> int | None:
        if (line := sentence.line(0)) is None:
            return None
        from pipeline.engine.draft_and_verify import iterate
        iterate(line, 1, False, 0, np.empty(0, np.int64))  # in blocks of one word there is nothing to iterate
        return 0

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
    if B == 1 and isinstance(drafter, WholeDrafter):
        sentence = Sentence(verifier, state, longest, limit.longest, acceptance)
        try:
            own = drafter.whole(sentence)
        except IndexError as error:
            raise PipelineError(f"draft and verify: {error}; they need the same vocabulary") from None
        if own is not None:
            return _searched(sentence, verifier, source, own, acceptance)
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
                      Verification(acceptance.exact, drafter.calls(drawn), lambda: rounds))


def _call(verifier: Model, last: Tensor, draft: Tensor, state: Any) -> Tensor:
    """The verifier's logits behind the last token and behind every token of the draft, (R, n + 1, V)."""
    try:
        return verifier.step(torch.cat((last, draft), 1), state)
    except IndexError:
        if draft.numel() == 0:
            raise
        raise PipelineError(f"draft and verify: the drafter proposed token {int(draft.max())} or {int(draft.min())}, "
                            "which the verifier does not know; they need the same vocabulary") from None


def _searched(sentence: Sentence, verifier: Model, source: Tensor, own: int, acceptance: Acceptance) -> Hypotheses:
    """What a compiled loop has found, as `verify` returns it; `own` are the calls of the drafter's network."""
    found = sentence.found()
    words, lengths = verifier.order.restore(torch.from_numpy(found.words))
    first = torch.zeros(1, dtype=torch.long)
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scored_later(verifier, source, found.said),
                      torch.from_numpy(found.ends)[None], torch.tensor([found.calls]),
                      Verification(acceptance.exact, torch.tensor([own]), lambda: [
                          Round(first, *map(torch.from_numpy, one)) for one in found.rounds()]))
