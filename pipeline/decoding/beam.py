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
            raise PipelineError(f"length_penalty.kind: {self.kind!r} is unknown; choose one of {', '.join(LENGTH_PENALTIES)}")
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
    filled = source.new_full((B, K, longest * z), EOS)
    tokens = source.new_full((B * K, z), BOS)
    scores = torch.full((B, K), -torch.inf, device=source.device)
    scores[:, :1] = 0  # at first all beams are one
    for step in range(longest):
        S, t = len(sentences), (step + 1) * z
        log_probabilities = model.step(tokens, state).log_softmax(2)
        if step == 0 and log_probabilities.shape[2] <= K:
            raise PipelineError(f"beam: {K} must be smaller than the vocabulary, {log_probabilities.shape[2]}")
        steps_out = _best_steps(log_probabilities, K)

        # The K best ways to go on.
        going = (scores.view(S * K, 1) + steps_out.scores).view(S, K * K)
        going_scores, going_at = going.topk(K)
        # The ways to end, if they are among the K best of all.
        ending = (scores.view(S * K, 1) + steps_out.end_scores).view(S, -1)
        best_scores, best_at = torch.cat([ending, going_scores], 1).topk(K)
        ends = (best_at < ending.shape[1]) & best_scores.isfinite()
        if bool(ends.any()):
            ways = ending.shape[1] // K
            at = best_at.clamp(max=ending.shape[1] - 1)
            slots = _extend(filled, at // ways, steps_out.end_words, at % ways, step * z)
            finished.add(sentences, slots, (best_scores / penalty(t)).masked_fill(~ends, -torch.inf), ended=True)

        parents = going_at // K
        filled = _extend(filled, parents, steps_out.words, going_at % K, step * z)
        tokens = filled[:, :, step * z:t].reshape(S * K, z)
        scores = going_scores
        over = finished.full(sentences) | (last == step)
        over |= finished.beyond(sentences, nbest, scores[:, 0] / penalty((last + 1) * z))
        rows = parents + torch.arange(S, device=source.device).unsqueeze(1) * K
        if bool(over.any()):
            calls[sentences[over]] = step + 1
            cut = last == step
            finished.add(sentences[cut], filled[cut], scores[cut] / penalty(t), ended=False)
            alive = (~over).nonzero().squeeze(1)
            if len(alive) == 0:
                break
            sentences, last, filled, scores, rows = (x[alive] for x in (sentences, last, filled, scores, rows))
            tokens = tokens.view(S, K, z)[alive].view(-1, z)
        state.select(rows.flatten())
    return finished.hypotheses(model, nbest, calls)


@dataclass(frozen=True)
class _Steps:
    """The K best ways for each of R rows to fill its next z slots, and the ways to end there."""

    scores: Tensor  # (R, K)
    words: Tensor  # (R, K, z)
    end_scores: Tensor  # (R, W), W = 1 + (z - 1) * K
    end_words: Tensor  # (R, W, z)


def _best_steps(log_probabilities: Tensor, K: int) -> _Steps:
    """The K best joint steps of each row, exactly, in O(z K²) and not K^z: slots are independent given the past.

    A way to end keeps words in the first j slots and ends in all others; it is one of the K best joint prefixes of
    j words, or among those worse than K others that end alike.

    Args:
        log_probabilities: (R, z, V); its end symbols are overwritten.
    """
    R, z, V = log_probabilities.shape
    end = log_probabilities[..., EOS].clone()
    log_probabilities[..., EOS] = -torch.inf
    scores, words = best_k(log_probabilities.view(R * z, V), K)
    scores, words = scores.view(R, z, K), words.view(R, z, K)
    if z == 1:
        return _Steps(scores[:, 0], words.transpose(1, 2), end, words.new_full((R, 1, 1), EOS))
    ends_from = end.flip(1).cumsum(1).flip(1)  # (R, z): all slots from j on end
    end_scores, end_words = [ends_from[:, :1]], [words.new_full((R, 1, z), EOS)]
    joint, prefix = scores[:, 0], words[:, 0].unsqueeze(2)
    for j in range(1, z):
        end_scores.append(joint + ends_from[:, j:j + 1])
        end_words.append(torch.nn.functional.pad(prefix, (0, z - j), value=EOS))
        joint, at = (joint.unsqueeze(2) + scores[:, j].unsqueeze(1)).view(R, K * K).topk(K)
        prefix = torch.cat([prefix.gather(1, (at // K).unsqueeze(2).expand(R, K, j)),
                            words[:, j].gather(1, at % K).unsqueeze(2)], 2)
    return _Steps(joint, prefix, torch.cat(end_scores, 1), torch.cat(end_words, 1))


def _extend(filled: Tensor, parents: Tensor, words: Tensor, at: Tensor, start: int) -> Tensor:
    """The slots of chosen beams with a chosen step behind them.

    Args:
        filled: (S, K, T) slots of all beams.
        parents: (S, K) chosen beams.
        words: (S * K, W, z) possible steps of each beam.
        at: (S, K) which of the W.
        start: the slot at which the step stands.
    """
    S, K, T = filled.shape
    rows = (parents + torch.arange(S, device=parents.device).unsqueeze(1) * K).flatten()
    extended = filled.view(S * K, T).index_select(0, rows)
    extended[:, start:start + words.shape[2]] = words[rows, at.flatten()]
    return extended.view(S, K, T)


class _Finished:
    """The K best finished hypotheses of each of B sentences, best first."""

    def __init__(self, B: int, K: int, T: int, like: Tensor) -> None:
        self.slots = like.new_full((B, K, T), EOS)
        self.scores = torch.full((B, K), -torch.inf, device=like.device)
        self.ended = torch.zeros((B, K), dtype=torch.bool, device=like.device)

    def add(self, sentences: Tensor, slots: Tensor, scores: Tensor, *, ended: bool) -> None:
        """Merge K hypotheses a sentence: (S, K, T) slots with (S, K) scores, -inf where there is none."""
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
