"""Beam search with pairs (Algorithm 1 of Imamura and Sumita), for every order that fills two slots per step.

The 2W best pairs (beam, left word) of all W beams are kept and extended by right words; the 3W best triples (beam,
left word, right word) are kept. Of the first W triples those with an end symbol are finished, and of all 3W the first W
without an end symbol go on. A sentence is done when it has K finished hypotheses. With W = 1 this is greedy search.

The paper leaves open, and this file (like `beams`) chooses:

* "2W tokens for y_L" are those of all beams together, not of each beam.
* A word after the end symbol has no index in the target (see `model.orders`): if the left word is the end symbol, so is
  the right word. So each of the 2W left words is in at most one triple with an end symbol, and at least W of the 3W
  triples have none and can go on. A beam is empty (score -inf) only if fewer than W continuations are possible.
* A triple that ends and is not among the first W is dropped.
* If the last step finishes more than K hypotheses, the best are kept.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.checks import Checked, Positive, Refused
from pipeline.decoding.beams import Candidates, Expand, Expansion, LengthPenalty, beam_search
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.decoding.traits import Traits
from pipeline.engine.waiting import waits
from pipeline.model.top import best_k_and_end

TRAITS = Traits(width=2, takes_shortlist=True, in_one_call=True)


@dataclass(frozen=True)
class Settings(Checked):
    """Beam search with pairs."""

    beams: Positive
    """W, unfinished hypotheses per sentence; smaller than the vocabulary."""
    hypotheses: Positive | None = None
    """K, finished hypotheses with which a sentence is done; W by default."""
    length_penalty: LengthPenalty = field(default_factory=LengthPenalty)
    """Ranks finished hypotheses of different lengths."""
    nbest: Positive = 1
    """N <= K, hypotheses to return."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nbest > self.finish:
            raise Refused(f"nbest: {self.nbest} must not exceed the hypotheses, {self.finish}")

    @property
    def finish(self) -> int:
        """K."""
        return self.beams if self.hypotheses is None else self.hypotheses


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings) -> Hypotheses:
    """Search with W beams per sentence; see `beam_search` for the result.

    Raises:
        PipelineError: W is not smaller than the vocabulary.
    """
    order = model.order
    W, H, N, penalty = settings.beams, settings.finish, settings.nbest, settings.length_penalty
    return beam_search(model, source, limit, _expansion(W, order.end, source.device), beams=W, hypotheses=H, nbest=N,
                       penalty=penalty, candidates=None)


def _expansion(W: int, end: int, device: torch.device) -> Expand:
    n = 3 * W
    adapts = not waits(device)  # a GPU would have to be waited for, to know how few words are enough

    def expand(log_probabilities: Tensor, scores: Tensor) -> Expansion:
        nonlocal n
        rows = log_probabilities.view(-1, log_probabilities.shape[2])
        # At most the 3W best words of a slot are needed. For a confident model W nearly always are, and are tried
        # first if they were enough for the previous step.
        most = min(3 * W, rows.shape[1] - 1)
        first_try = min(W, most)
        n = min(n, most)
        word_scores, words = best_k_and_end(rows, n, end)
        pairs, hidden, ranks = _best_pairs(word_scores.view(-1, W, 2, n + 1), words, scores, end)
        if adapts and n < most and bool((pairs.scores[:, -1] < hidden).any()):
            rows.scatter_(1, words, word_scores)  # `best_k_and_end` has overwritten them
            n = most
            word_scores, words = best_k_and_end(rows, n, end)
            pairs, hidden, ranks = _best_pairs(word_scores.view(-1, W, 2, n + 1), words, scores, end)
        if adapts and n == most and int(ranks.max()) < first_try:
            n = first_try
        ends = pairs.words[:, :, 1] == end
        unfinished, on = pairs.scores.masked_fill(ends, -torch.inf).topk(W)
        going = Candidates(unfinished, pairs.parents.gather(1, on),
                           pairs.words.gather(1, on.unsqueeze(2).expand(-1, -1, 2)))
        first = ends[:, :W]
        if adapts and not bool(first.any()):
            return Expansion(going, None)
        finished = pairs.scores[:, :W].masked_fill(~first, -torch.inf)
        return Expansion(going, Candidates(finished, pairs.parents[:, :W], pairs.words[:, :W]))
    return expand


def _best_pairs(word_scores: Tensor, words: Tensor, scores: Tensor, end: int) -> tuple[Candidates, Tensor, Tensor]:
    """The 3W best triples of beams, the n best words of each slot, and the end symbol.

    Args:
        word_scores: (S, W, 2, n + 1), best first and the end symbol last.
        words: (S * W * 2, n + 1), ids of the same words.
        scores: (S, W) of the beams.
        end: the end symbol.

    Returns:
        The triples, best first; an upper bound (S,) of the scores of triples with other words; and for each triple the
        higher of its words' ranks (S, 3W), where an end symbol has rank 0.
    """
    S, W, _, width = word_scores.shape
    ids = words.view(S, W, 2, width)
    left = word_scores[:, :, 0] + scores.unsqueeze(2)
    left_scores, left_at = left.view(S, -1).topk(2 * W)
    beams = left_at // width
    lefts = ids[:, :, 0].reshape(S, -1).gather(1, left_at)

    right = word_scores[:, :, 1].gather(1, beams.unsqueeze(2).expand(-1, -1, width))
    right[:, :, :-1].masked_fill_((lefts == end).unsqueeze(2), -torch.inf)
    joint = right.add_(left_scores.unsqueeze(2))
    best, at = joint.view(S, -1).topk(3 * W)
    chosen, rank = at // width, at % width
    parents = beams.gather(1, chosen)
    rights = ids[:, :, 1].reshape(S, -1).gather(1, parents * width + rank)
    # A word that is not here is no better than the last one that is. A left word matters only if it is among the 2W.
    above = left[:, :, -2].amax(1)
    hidden = torch.maximum(joint[:, :, -2].amax(1), above.masked_fill(above <= left_scores[:, -1], -torch.inf))
    ranks = torch.maximum(rank, (left_at % width).gather(1, chosen)) % (width - 1)
    return Candidates(best, parents, torch.stack((lefts.gather(1, chosen), rights), 2)), hidden, ranks
