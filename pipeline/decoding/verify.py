"""Draft and verify (Ge et al. 2022): propose several tokens, verify them all in one call, keep the accepted ones.

A drafter proposes what comes next; one call of the verifier predicts the token in place of each proposed token and the
one after them. Every row of the batch keeps the longest prefix of the draft that the verifier predicts and the
verifier's next token, and discards the rest. Whatever the drafter proposes, the result is that of greedy search
(equation 7), token by token and in any batch, in at most as many calls.

Relaxed acceptance (GAD++, equations 8 and 9) keeps a proposed token that is almost as probable as the best one. The
result is then no longer greedy search's.

A single sentence on a CPU is one compiled call, where the engine has a loop for its drafter (`engine.sentence`). The
loop here serves everything else, and tests compare the two.

In floating point, a call of ten tokens rounds differently from ten calls of one: where two words are almost equally
probable, the other one may win.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import EXACT, Acceptance, Prefix
from pipeline.decoding.protocol import Model
from pipeline.decoding.rescoring import scored_later
from pipeline.decoding.traits import Traits
from pipeline.engine.sentence import Found, Sentence
from pipeline.engine.waiting import on_device
from pipeline.errors import PipelineError

TRAITS = Traits(width=1, in_one_call=True)


class Drafter(Protocol):
    """Proposes tokens for the rows of one search, which its constructor was given. Most drafters derive from it."""

    block: int
    """The most tokens of a draft."""

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        """Propose what comes next.

        Args:
            prefix: what every row has accepted so far.
            room: the most tokens to propose now, at most `block`.

        Returns:
            (R, n <= room) tokens, PAD after shorter drafts; n may be 0. A verifier that predicts PAD, as none that has
            learnt does, would accept it.
        """

    def in_one_call(self, sentence: Sentence) -> Found | None:
        """Translate a single sentence to its end.

        Returns:
            None where the engine does not compile the loop, and nothing was done.
        """

    def select(self, rows: Tensor) -> None:
        """Keep some rows, whose indices are on the CPU; the others have ended."""

    def calls(self, rounds: Tensor) -> Tensor:
        """Calls of its own network, (B,), that rows took part in which were drafted for in `rounds` (B,) rounds."""
        return torch.zeros_like(rounds)  # most drafters have no network


class Round(NamedTuple):
    """A draft and its verdict."""

    sentences: Tensor
    """(R,) indices in the batch of those that had not ended."""
    draft: Tensor
    """(R, n) tokens, PAD where there is none."""
    verdict: Tensor
    """(R, n + 1), the verifier's predictions in their place and after them; those after the accepted ones are void."""
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
    """Builds the rounds."""

    @cached_property
    def rounds(self) -> list[Round]:
        """The rounds in their order, built on first use: few searches need them."""
        return self.recorded()


class Nothing(Drafter):
    """The drafter that proposes nothing: greedy search, by this loop."""

    block = 0

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        return prefix.tokens[:, :0]

    def in_one_call(self, sentence: Sentence) -> Found | None:
        return sentence.nothing()

    def select(self, rows: Tensor) -> None:
        pass


@dataclass(frozen=True)
class Settings:
    """Nothing is drafted, so there is nothing to set: greedy search's output by the simplest draft."""


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Greedy search by this loop, with nothing drafted."""
    return verify(model, Nothing(), source, model.encode(source), limit)


@torch.inference_mode()
def verify(verifier: Model, drafter: Drafter, source: Tensor, memory: Any, limit: LengthLimit,
           acceptance: Acceptance = EXACT) -> Hypotheses:
    """Translate by draft and verification.

    Args:
        verifier: an ordered model that generates one token per step.
        drafter: made for these rows.
        source: (B, S) ids, padded with PAD on the right.
        memory: of the verifier, of the source.
        limit: the longest output.
        acceptance: of proposed tokens.

    Returns:
        Hypotheses as greedy search's, with the `verification`; calls are the verifier's.

    Raises:
        PipelineError: the verifier generates several tokens per step, or the drafter proposed an unknown id.
    """
    if verifier.order.width != 1:
        raise PipelineError(f"draft and verify: the verifier generates in the order {verifier.order.name}, "
                            f"{verifier.order.width} words per step; choose one of one word per step")
    B, end, device = len(source), verifier.order.end, source.device
    steps = limit.steps(source, verifier.order).cpu().numpy()
    longest = int(steps.max(initial=0))
    state = verifier.start(memory, capacity=longest + drafter.block)
    if B == 1:
        sentence = Sentence(verifier, state, longest, limit.longest, *acceptance.limits)
        try:
            found = drafter.in_one_call(sentence)
        except IndexError as error:
            raise PipelineError(f"draft and verify: {error}; they need the same vocabulary") from None
        if found is not None:
            return _in_one_call(verifier, source, found, acceptance)
    from pipeline.engine.drafts import room_for  # numba: half a second that no other search needs
    slots, calls, ended = np.full((B, longest), end), np.zeros(B, np.int64), np.zeros(B, bool)
    scores = torch.zeros(B, device=device, dtype=torch.float64)
    rounds: list[Round] = []

    # Of the rows that have not ended: their sentences, the tokens that they may still accept, and their scores.
    sentences, remaining, score = np.arange(B), steps, scores
    prefix = Prefix(verifier.order.starts[0], B, longest, device)
    while len(sentences):
        # What a row proposes must not depend on the other rows' limits, only on what the verifier can read.
        draft = drafter.draft(prefix, room_for(drafter.block, limit.longest, prefix.longest))
        logits = _call(verifier, prefix.last, draft, state)
        verdict = prefix.extend(logits, draft, acceptance, remaining, end)
        prefix.hidden = state.hidden
        score = score + verdict.gained
        rounds.append(Round(torch.from_numpy(sentences), draft, verdict.predicted, torch.from_numpy(prefix.added)))
        if verdict.over:
            over = verdict.ends | (remaining == 0)
            done, alive = (torch.from_numpy(some.nonzero()[0]) for some in (over, ~over))
            inside = np.arange(longest) < prefix.counts[over, None] - 1
            slots[sentences[over]] = np.where(inside, prefix.words[over, 1:], end)
            scores[on_device(sentences[over], device)] = score[done.to(device, non_blocking=True)]
            ended[sentences[over]], calls[sentences[over]] = verdict.ends[over], len(rounds)
            if len(alive) == 0:
                break
            sentences, remaining, score = sentences[~over], remaining[~over], score[alive.to(device, non_blocking=True)]
            prefix.select(alive)
            state.select(alive)
            drafter.select(alive)
        state.rewind(prefix.lengths - 1)
    words, lengths = verifier.order.restore(torch.from_numpy(slots).to(device))
    drawn = torch.from_numpy(calls).to(device)
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scores.unsqueeze(1),
                      torch.from_numpy(ended).to(device).unsqueeze(1), drawn,
                      Verification(acceptance.exact, drafter.calls(drawn), lambda: rounds))


def _call(verifier: Model, last: Tensor, draft: Tensor, state: Any) -> Tensor:
    """The verifier's logits after the last token and after every token of the draft, (R, n + 1, V)."""
    try:
        return verifier.step(torch.cat((last, draft), 1), state)
    except IndexError:
        if draft.numel() == 0:
            raise
        raise PipelineError(f"draft and verify: the drafter proposed token {int(draft.max())} or {int(draft.min())}, "
                            "which the verifier does not know; they need the same vocabulary") from None


def _in_one_call(verifier: Model, source: Tensor, found: Found, acceptance: Acceptance) -> Hypotheses:
    """The result of a compiled search of a single sentence, as `verify` returns it."""
    words, lengths = verifier.order.restore(torch.from_numpy(found.words))
    first, rounds = torch.zeros(1, dtype=torch.long), found.rounds
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scored_later(verifier, source, [found.steps]),
                      torch.from_numpy(found.ends)[None], torch.tensor([found.calls]),
                      Verification(acceptance.exact, torch.tensor([found.drafter_calls]), lambda: [
                          Round(first, *map(torch.from_numpy, one)) for one in rounds()]))
