"""Beam search, for every generation order (Algorithm 1 of Zhang et al. 2020; the usual one where z = 1).

What the paper leaves open, chosen here:

* A candidate that ends is kept if it is among the K best candidates of its sentence at that step, words and ends
  together; K candidates that do not end always go on.
* A sentence is done when it has K finished hypotheses, or when no hypothesis still alive can become better than
  its N finished ones even if it lost nothing more until the length limit.
* The length of a hypothesis is its number of slots t, as in the paper's s_t / t.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.decoding.top import best_k
from pipeline.errors import PipelineError
from pipeline.vocabulary import BOS, EOS

LENGTH_PENALTIES = ("average", "gnmt")


@dataclass(frozen=True)
class LengthPenalty:
    """What the log-probability of a hypothesis of t slots is divided by.

    `average`: t ** alpha (fairseq, and Zhang et al. 2020 with alpha 1); `gnmt`: ((5 + t) / 6) ** alpha (Wu et al.
    2016, equation 14). Alpha 0 ranks by log-probability.
    """

    kind: str = "average"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in LENGTH_PENALTIES:
            raise PipelineError(f"length_penalty.kind: {self.kind!r} is unknown; choose one of "
                                f"{', '.join(LENGTH_PENALTIES)}")
        if self.alpha < 0:
            raise PipelineError(f"length_penalty.alpha: {self.alpha} must not be negative")

    def __call__(self, slots: Tensor | int) -> Tensor | float:
        """The divisor of each length.

        >>> LengthPenalty("gnmt", 1.0)(7), LengthPenalty("average", 0.5)(16)
        (2.0, 4.0)
        """
        return (slots if self.kind == "average" else (5 + slots) / 6) ** self.alpha


@dataclass(frozen=True)
class Settings:
    """Beam search."""

    beams: int
    """K, hypotheses a sentence; smaller than the vocabulary."""
    length_penalty: LengthPenalty = LengthPenalty()
    """Ranks finished hypotheses of different lengths."""
    nbest: int = 1
    """N <= K, hypotheses to return."""

    def __post_init__(self) -> None:
        if not 1 <= self.nbest <= self.beams:
            raise PipelineError(f"nbest: {self.nbest} must lie between 1 and the beam, {self.beams}")


@torch.inference_mode()
def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings) -> Hypotheses:
    """Search with K beams a sentence.

    Args:
        model: anything with the three verbs.
        source: (B, S) ids, padded with PAD behind.
        limit: the longest output.
        settings: beam, length penalty and hypotheses to return.

    Returns:
        Hypotheses with penalised scores.

    Raises:
        PipelineError: K is not smaller than the vocabulary.
    """
    penalty, nbest = settings.length_penalty, settings.nbest
    B, K, z = len(source), settings.beams, model.order.width
    steps = limit.steps(source, model.order)
    longest = int(steps.max()) if B else 0
    state = model.start(model.encode(source), beams=K, capacity=longest * z)
    finished = _Finished(B, K, longest * z, source)
    calls = torch.zeros_like(steps)

    # Of the S sentences that are still searched: their index, limit, and the slots and scores of their beams.
    sentences, last = torch.arange(B, device=source.device), steps - 1
    first_row = torch.arange(0, B * K, K, device=source.device).unsqueeze(1)
    soonest = int(steps.min()) - 1 if B else 0
    filled = source.new_full((B * K, longest * z), EOS)
    tokens = source.new_full((B * K, z), BOS)
    scores = torch.full((B, K), -torch.inf, device=source.device)
    scores[:, :1] = 0  # at first all beams are one
    for step in range(longest):
        S, t = len(sentences), (step + 1) * z
        log_probabilities = model.step(tokens, state).log_softmax(2)
        if step == 0 and log_probabilities.shape[2] <= K:
            raise PipelineError(f"beam: {K} must be smaller than the vocabulary, {log_probabilities.shape[2]}")
        end = log_probabilities[:, :, EOS].clone()
        log_probabilities[:, :, EOS] = -torch.inf
        word_scores, words = best_k(log_probabilities.flatten(0, 1), K)
        word_scores, words = word_scores.view(S * K, z, K), words.view(S * K, z, K)
        going = _go_on(scores, word_scores, words)
        # No way to end is better than this: the last slot ends, and each before it does its best.
        bound = torch.maximum(end[:, :-1], word_scores[:, :-1, 0]).sum(1).add_(end[:, -1]).view(S, K).add_(scores)
        if bool((bound.amax(1) >= going.scores[:, -1]).any()):
            ends = _end(scores, word_scores, words, end)
            best_scores, at = torch.cat([ends.scores, going.scores], 1).topk(K)
            ended = (at < ends.scores.shape[1]) & best_scores.isfinite()
            at = at.clamp(max=ends.scores.shape[1] - 1)
            slots = filled.index_select(0, (ends.parents.gather(1, at) + first_row).flatten()).view(S, K, -1)
            slots[:, :, step * z:t] = ends.words.gather(1, at.unsqueeze(2).expand(-1, -1, z))
            finished.add(sentences, slots, (best_scores / penalty(t)).masked_fill(~ended, -torch.inf), ended=True)

        rows = (going.parents + first_row).flatten()
        tokens = going.words.view(S * K, z)
        filled = filled.index_select(0, rows)
        filled[:, step * z:t] = tokens
        scores = going.scores
        if finished.any or step >= soonest:
            over = finished.full(sentences) | (last == step)
            over |= finished.beyond(sentences, nbest, scores[:, 0] / penalty((last + 1) * z))
            if bool(over.any()):
                calls[sentences[over]] = step + 1
                cut = last == step
                finished.add(sentences[cut], filled.view(S, K, -1)[cut], scores[cut] / penalty(t), ended=False)
                alive = (~over).nonzero().squeeze(1)
                if len(alive) == 0:
                    break
                of_alive = (alive.unsqueeze(1) * K + torch.arange(K, device=source.device)).flatten()
                sentences, last, scores = sentences[alive], last[alive], scores[alive]
                rows, tokens, filled = rows[of_alive], tokens[of_alive], filled[of_alive]
                first_row = first_row[:len(alive)]
        state.select(rows)
    return finished.hypotheses(model, nbest, calls)


@dataclass(frozen=True)
class _Candidates:
    """N ways for each of S sentences to fill its next z slots."""

    scores: Tensor  # (S, N) of the hypothesis up to and with the step
    parents: Tensor  # (S, N) beam, 0 .. K - 1
    words: Tensor  # (S, N, z)


def _go_on(scores: Tensor, word_scores: Tensor, words: Tensor) -> _Candidates:
    """The K best joint steps of each sentence that end nowhere, exactly: slots are independent given the past.

    Args:
        scores: (S, K) of the beams.
        word_scores, words: (S * K, z, K), the best words of each slot.
    """
    (S, K), z = scores.shape, words.shape[1]
    joint, chosen = scores.view(S * K, 1) + word_scores[:, 0], []
    for j in range(1, z):
        joint = joint.unsqueeze(2) + word_scores[:, j].unsqueeze(1)  # (S * K, ways, K)
        if j < z - 1:
            joint, at = joint.flatten(1).topk(K)
            chosen.append(at)
    best, at = joint.view(S, -1).topk(K)
    picks = []  # of each slot, last one first
    for j in range(z - 1, 0, -1):
        picks.append(at % K)
        at = torch.div(at, K, rounding_mode="floor")
        if j > 1:  # a way of the slots before: look up what it stood for
            at = at // K * (K * K) + chosen[j - 2].view(S, -1).gather(1, at)
    picks.append(at % K)
    parents = torch.div(at, K, rounding_mode="floor")
    flat, base = words.view(S, -1), parents * (z * K)
    step = [flat.gather(1, base + (j * K + pick)) for j, pick in enumerate(reversed(picks))]
    return _Candidates(best, parents, step[0].unsqueeze(2) if z == 1 else torch.stack(step, 2))


def _end(scores: Tensor, word_scores: Tensor, words: Tensor, end: Tensor) -> _Candidates:
    """The ways to end: a beam keeps one of its K best joint prefixes of j < z words and ends in all later slots."""
    (S, K), z = scores.shape, words.shape[1]
    ends_from = end.flip(1).cumsum(1).flip(1)  # (S * K, z): all slots from j on end
    joint, prefix = scores.view(S * K, 1), words.new_empty(S * K, 1, 0)
    all_scores, all_words = [], []
    for j in range(z):
        all_scores.append(joint + ends_from[:, j:j + 1])
        all_words.append(torch.nn.functional.pad(prefix, (0, z - j), value=EOS))
        joint, at = (joint.unsqueeze(2) + word_scores[:, j].unsqueeze(1)).flatten(1).topk(K)
        prefix = torch.cat([prefix.gather(1, (at // K).unsqueeze(2).expand(-1, -1, j)),
                            words[:, j].gather(1, at % K).unsqueeze(2)], 2)
    ways = 1 + (z - 1) * K
    parents = torch.arange(K * ways, device=end.device).div(ways, rounding_mode="floor").expand(S, -1)
    return _Candidates(torch.cat(all_scores, 1).view(S, -1), parents, torch.cat(all_words, 1).view(S, K * ways, z))


class _Finished:
    """The K best finished hypotheses of each of B sentences, best first."""

    def __init__(self, B: int, K: int, T: int, like: Tensor) -> None:
        self.any = False
        self.slots = like.new_full((B, K, T), EOS)
        self.scores = torch.full((B, K), -torch.inf, device=like.device)
        self.ended = torch.zeros((B, K), dtype=torch.bool, device=like.device)

    def add(self, sentences: Tensor, slots: Tensor, scores: Tensor, *, ended: bool) -> None:
        """Merge K hypotheses a sentence: (S, K, T) slots with (S, K) scores, -inf where there is none."""
        self.any = True
        self.scores = self.scores.to(scores.dtype)
        K = scores.shape[1]
        both, at = torch.cat([self.scores[sentences], scores], 1).topk(K)
        all_slots = torch.cat([self.slots[sentences], slots], 1)
        all_ended = torch.cat([self.ended[sentences], torch.full_like(scores, ended, dtype=torch.bool)], 1)
        self.slots[sentences] = all_slots.gather(1, at.unsqueeze(2).expand(-1, -1, slots.shape[2]))
        self.ended[sentences] = all_ended.gather(1, at)
        self.scores[sentences] = both

    def full(self, sentences: Tensor) -> Tensor:
        """(S,) whether K hypotheses are finished."""
        return self.scores[sentences, -1].isfinite()

    def beyond(self, sentences: Tensor, nbest: int, bound: Tensor) -> Tensor:
        """(S,) whether N hypotheses are finished and none below `bound`, the best that may still come."""
        return self.scores[sentences, nbest - 1] >= bound

    def hypotheses(self, model: Model, nbest: int, calls: Tensor) -> Hypotheses:
        B, _, T = self.slots.shape
        words, lengths = model.order.restore(self.slots[:, :nbest].reshape(B * nbest, T))
        return Hypotheses(words.view(B, nbest, words.shape[1]), lengths.view(B, nbest), self.scores[:, :nbest],
                          self.ended[:, :nbest], calls)
