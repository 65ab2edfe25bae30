"""Beam search with pairs (Algorithm 1 of Imamura and Sumita), for every order that fills two slots a step.

Of all W beams the 2W best (beam, left word) are kept; of these, by the score with the right word, the 3W best (beam,
left word, right word). Those among the first W that hold an end symbol are finished, and of all 3W the first W that
hold none go on. A sentence is done when it has K finished hypotheses. At W = 1 this is greedy search.

What the paper leaves open, chosen here (and in `beams`):

* "2W tokens for y_L" are those of all beams together, not of each.
* A word behind the end has no place in the target (see `model.orders`): behind a left word that is the end, the end is
  the only right word. So each of the 2W left words is in one pair with an end at most, and at least W of the 3W pairs
  hold none: there are always W to go on with, which is why it is 2W and 3W. A beam is free (score -inf) only where
  fewer than W continuations are possible at all.
* A pair that ends and is not among the first W is dropped.
* More than K hypotheses may be finished once the last step is counted; the best are kept.
"""

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from pipeline.checks import Checked, Positive
from pipeline.decoding.beam import in_one_call
from pipeline.decoding.beams import Candidates, Expand, Expansion, LengthPenalty, beam_search
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.errors import PipelineError
from pipeline.model.top import best_words


@dataclass(frozen=True)
class Settings(Checked):
    """Beam search with pairs."""

    beams: Positive
    """W, hypotheses that go on; smaller than the vocabulary."""
    hypotheses: Positive | None = None
    """K, finished hypotheses at which a sentence is done; W where nothing is said."""
    length_penalty: LengthPenalty = field(default_factory=LengthPenalty)
    """Ranks finished hypotheses of different lengths."""
    nbest: Positive = 1
    """N <= K, hypotheses to return."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nbest > self.finish:
            raise PipelineError(f"nbest: {self.nbest} must not exceed the hypotheses, {self.finish}")

    @property
    def finish(self) -> int:
        """K."""
        return self.beams if self.hypotheses is None else self.hypotheses


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings) -> Hypotheses:
    """Search with W beams a sentence; see `beam_search` for arguments and result.

    Raises:
        PipelineError: the order does not fill two slots a step, or W is not smaller than the vocabulary.
    """
    order = model.order
    if order.width != 2:
        raise PipelineError(f"pair_beam: order {order.name} fills {order.width} slots a step and not 2; choose the "
                            "algorithm beam")
    W, H, N, penalty = settings.beams, settings.finish, settings.nbest, settings.length_penalty
    return beam_search(model, source, limit, _expansion(W, order.end), beams=W, hypotheses=H, nbest=N, penalty=penalty,
                       in_one_call=partial(in_one_call, model, penalty, None, H, N))


def _expansion(W: int, end: int) -> Expand:
    n = 3 * W

    def expand(log_probabilities: Tensor, scores: Tensor) -> Expansion:
        nonlocal n
        rows = log_probabilities.view(-1, log_probabilities.shape[2])
        # Never more than the 3W best words of a slot are needed, and of a sure model W are nearly always enough: they
        # are tried while the step before was content with so many.
        most = min(3 * W, rows.shape[1] - 1)
        few = min(W, most)
        n = min(n, most)
        word_scores, words = best_words(rows, n, end)
        pairs, hidden, ranks = _best_pairs(word_scores.view(-1, W, 2, n + 1), words, scores, end)
        if n < most and bool((pairs.scores[:, -1] < hidden).any()):
            rows.scatter_(1, words, word_scores)  # what `best_words` has overwritten
            n = most
            word_scores, words = best_words(rows, n, end)
            pairs, hidden, ranks = _best_pairs(word_scores.view(-1, W, 2, n + 1), words, scores, end)
        if n == most and int(ranks.max()) < few:
            n = few
        ends = pairs.words[:, :, 1] == end
        unfinished, on = pairs.scores.masked_fill(ends, -torch.inf).topk(W)
        going = Candidates(unfinished, pairs.parents.gather(1, on),
                           pairs.words.gather(1, on.unsqueeze(2).expand(-1, -1, 2)))
        first = ends[:, :W]
        if not bool(first.any()):
            return Expansion(going, None)
        finished = pairs.scores[:, :W].masked_fill(~first, -torch.inf)
        return Expansion(going, Candidates(finished, pairs.parents[:, :W], pairs.words[:, :W]))
    return expand


def _best_pairs(word_scores: Tensor, words: Tensor, scores: Tensor, end: int) -> tuple[Candidates, Tensor, Tensor]:
    """The 3W best pairs that can be made of the n best words of each slot and the end.

    Args:
        word_scores: (S, W, 2, n + 1), best first and the end symbol last.
        words: the same words' ids, in as many rows as there are slots.
        scores: (S, W) of the beams.
        end: the end symbol.

    Returns:
        The pairs, best first; of each sentence (S,) a bound of what other words could reach; and the ranks (S, 3W) of
        the words in the pairs, the higher one of two, the end's not counted.
    """
    S, W, _, width = word_scores.shape
    ids = words.view(S, W, 2, width)
    left = word_scores[:, :, 0] + scores.unsqueeze(2)
    left_scores, left_at = left.view(S, -1).topk(2 * W)
    beams = torch.div(left_at, width, rounding_mode="floor")
    lefts = ids[:, :, 0].reshape(S, -1).gather(1, left_at)

    right = word_scores[:, :, 1].gather(1, beams.unsqueeze(2).expand(-1, -1, width))
    right[:, :, :-1].masked_fill_((lefts == end).unsqueeze(2), -torch.inf)
    joint = right.add_(left_scores.unsqueeze(2))
    best, at = joint.view(S, -1).topk(3 * W)
    chosen, rank = torch.div(at, width, rounding_mode="floor"), at % width
    parents = beams.gather(1, chosen)
    rights = ids[:, :, 1].reshape(S, -1).gather(1, parents * width + rank)
    # A word that is not here is no better than the last one that is. One on the left counts only if it is among 2W.
    above = left[:, :, -2].amax(1)
    hidden = torch.maximum(joint[:, :, -2].amax(1), above.masked_fill(above <= left_scores[:, -1], -torch.inf))
    ranks = torch.maximum(rank, (left_at % width).gather(1, chosen)) % (width - 1)
    return Candidates(best, parents, torch.stack((lefts.gather(1, chosen), rights), 2)), hidden, ranks
