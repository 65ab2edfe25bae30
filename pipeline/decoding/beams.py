"""The common parts of beam searches: the loop over steps, the finished hypotheses and the length penalty.

An algorithm defines an `Expand`, from the beams of a step to those of the next step and the hypotheses that end.

* A sentence is done when it has the required number of finished hypotheses, or when no unfinished one can exceed its N
  best finished ones even if its log-probability stayed the same until the length limit. The second rule changes no
  result.
* At the length limit the unfinished hypotheses are cut and compete with the finished ones.
* The length of a hypothesis is its number of slots t, as in the s_t / t of Zhang et al. (2020).
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.checks import Amount, Checked
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit, shortest_and_longest
from pipeline.decoding.protocol import Model
from pipeline.engine import sentence
from pipeline.engine.waiting import on_device
from pipeline.errors import PipelineError
from pipeline.model.state import Ints

Slots = TypeVar("Slots", Tensor, float)


@dataclass(frozen=True)
class LengthPenalty(Checked):
    """The divisor of the log-probability of a hypothesis of t slots.

    `average`: t ** alpha (fairseq; Algorithm 1 of Zhang et al. 2020 with alpha 1); `gnmt`: ((5 + t) / 6) ** alpha (Wu
    et al. 2016, equation 14; the experiments of Zhang et al. with alpha 0.6). Alpha 0 ranks by log-probability.
    """

    kind: Literal["average", "gnmt"] = "average"
    alpha: Amount = 1.0

    def __call__(self, slots: Slots) -> Slots:
        """The divisor of each length.

        >>> LengthPenalty("gnmt", 1.0)(7), LengthPenalty("average", 0.5)(16)
        (2.0, 4.0)
        """
        return (slots if self.kind == "average" else (5 + slots) / 6) ** self.alpha


class Candidates(NamedTuple):
    """N candidates for the next z slots of each of S sentences."""

    scores: Tensor
    """(S, N) log-probabilities of the hypotheses with this step; -inf where there is no candidate."""
    parents: Tensor
    """(S, N) beams that they continue, 0 to K - 1."""
    words: Tensor
    """(S, N, z)."""


class Expansion(NamedTuple):
    """The candidates of one step."""

    going: Candidates
    """K candidates without an end symbol, best first."""
    ended: Candidates | None
    """Any number of candidates that end in this step; None if there is none."""


Expand = Callable[[Tensor, Tensor], Expansion]
"""From the log-probabilities of a step (S * K, z, V), which it may overwrite, and the scores (S, K) of the beams."""


@torch.inference_mode()
def beam_search(model: Model, source: Tensor, limit: LengthLimit, expand: Expand, *, beams: int, hypotheses: int,
                nbest: int, penalty: LengthPenalty, candidates: tuple[Ints, Ints, int] | None) -> Hypotheses:
    """Search with K beams per sentence.

    Args:
        model: anything with the three methods.
        source: (B, S) ids, right-padded with PAD.
        limit: the greatest length of a translation.
        expand: the algorithm.
        beams: K.
        hypotheses: the number of finished hypotheses with which a sentence is done.
        nbest: N <= hypotheses, those to return.
        penalty: ranks finished hypotheses of different lengths.
        candidates: those of `expand` for compiled code; see `sentence.beam`.

    Returns:
        Hypotheses with penalised scores.

    Raises:
        PipelineError: K is not smaller than the vocabulary.
    """
    B, K, z, end = len(source), beams, model.order.width, model.order.end
    steps = limit.steps(source, model.order)
    soonest, longest = shortest_and_longest(steps)
    state = model.start(model.encode(source), beams=K, capacity=longest * z)
    if B == 1:
        divisors = np.array([penalty(float(step * z)) for step in range(longest + 1)])
        if (compiled := sentence.beam(model, state, divisors, candidates, hypotheses, nbest)) is not None:
            words, lengths = model.order.restore(torch.from_numpy(compiled.slots))
            return Hypotheses(words[None], lengths[None], torch.from_numpy(compiled.scores)[None],
                              torch.from_numpy(compiled.ended)[None], torch.tensor([compiled.calls]))
    found = _Finished(B, nbest, longest * z, end, source)
    calls = torch.zeros_like(steps)

    # The S unfinished sentences and their S * K beams.
    sentences, finished = torch.arange(B, device=source.device), _Finished(B, hypotheses, longest * z, end, source)
    first_rows, most = sentences.unsqueeze(1) * K, penalty(steps * z)
    filled, tokens = source.new_empty(B * K, 0), on_device(np.tile(model.order.starts, (B * K, 1)), source.device)
    scores = torch.full((B, K), -torch.inf, device=source.device)
    scores[:, :1] = 0  # initially a sentence has one hypothesis
    for step in range(1, longest + 1):
        logits, divisor = model.step(tokens, state), penalty(step * z)
        # Sums of scores of two bytes would make different hypotheses equal.
        log_probabilities = logits.log_softmax(2, dtype=torch.promote_types(logits.dtype, torch.float32))
        if step == 1 and log_probabilities.shape[2] <= K:
            raise PipelineError(f"beam: {K} must be smaller than the vocabulary, {log_probabilities.shape[2]}")
        going, ended = expand(log_probabilities, scores)
        if ended is not None:
            slots = filled.index_select(0, (ended.parents + first_rows).view(-1))
            words = torch.cat((slots, ended.words.flatten(0, 1)), 1)
            finished.add(words, ended.scores.double() / divisor, ended=True)
        scores, rows, tokens = going.scores, (going.parents + first_rows).view(-1), going.words.flatten(0, 1)
        filled = torch.cat((filled.index_select(0, rows), tokens), 1)

        if finished.any or step >= soonest:
            over = finished.settled(nbest, scores[:, 0].double() / most)
            if step >= soonest:
                cut = steps == step
                at_limit = scores.double().masked_fill(~cut.unsqueeze(1), -torch.inf)
                finished.add(filled, at_limit / divisor, ended=False)
                over |= cut
            leaving = over.cpu().numpy()  # what a step waits for
            if leaving.any():
                leave, stay = (on_device(some.nonzero()[0], source.device) for some in (leaving, ~leaving))
                found.put(sentences[leave], finished.keep(leave))
                calls[sentences[leave]] = step
                if len(stay) == 0:
                    break
                beams_of = (stay.unsqueeze(1) * K + torch.arange(K, device=source.device)).view(-1)
                rows, tokens, filled = rows[beams_of], tokens[beams_of], filled[beams_of]
                sentences, steps, scores, most = sentences[stay], steps[stay], scores[stay], most[stay]
                finished, first_rows = finished.keep(stay), first_rows[:len(stay)]
        state.select(rows)
    return found.hypotheses(model, calls)


class _Finished:
    """The N best finished hypotheses of each of S sentences, best first."""

    def __init__(self, S: int, N: int, T: int, end: int, like: Tensor) -> None:
        self.any = False
        self.end = end
        self.slots = like.new_full((S, N, T), end)
        self.scores = torch.full((S, N), -torch.inf, dtype=torch.float64, device=like.device)
        self.ended = torch.zeros((S, N), dtype=torch.bool, device=like.device)

    def add(self, slots: Tensor, scores: Tensor, *, ended: bool) -> None:
        """Merge hypotheses: (S * K, t) slots with scores (S, K), -inf where a hypothesis is missing."""
        self.any = True
        (S, N, T), (t, K) = self.slots.shape, (slots.shape[1], scores.shape[1])
        self.scores, at = torch.cat((self.scores, scores), 1).topk(N)
        slots = F.pad(slots.view(S, K, t), (0, T - t), value=self.end)
        self.slots = torch.cat((self.slots, slots), 1).gather(1, at.unsqueeze(2).expand(-1, -1, T))
        self.ended = torch.where(at < N, self.ended.gather(1, at.clamp(max=N - 1)), ended)

    def settled(self, nbest: int, bounds: Tensor) -> Tensor:
        """(S,) whether all N hypotheses are finished, or `nbest` of them with scores of at least `bounds` (S,)."""
        return (self.scores[:, -1] > -torch.inf) | (self.scores[:, nbest - 1] >= bounds)

    def keep(self, sentences: Tensor) -> "_Finished":
        """The hypotheses of the given sentences."""
        kept = copy(self)
        kept.slots, kept.scores, kept.ended = self.slots[sentences], self.scores[sentences], self.ended[sentences]
        return kept

    def put(self, sentences: Tensor, others: "_Finished") -> None:
        """Set the hypotheses of the given sentences to the N best of `others`."""
        N = self.slots.shape[1]
        self.slots[sentences], self.scores[sentences] = others.slots[:, :N], others.scores[:, :N]
        self.ended[sentences] = others.ended[:, :N]

    def hypotheses(self, model: Model, calls: Tensor) -> Hypotheses:
        (S, N, T), order = self.slots.shape, model.order
        words, lengths = order.restore(self.slots.view(S * N, T))
        return Hypotheses(words.view(S, N, words.shape[1]), lengths.view(S, N), self.scores,
                          self.ended & (self.scores > -torch.inf), calls)
