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

import torch
from torch import Tensor

from pipeline.decoding.beams import Candidates, Expand, Expansion, LengthPenalty, beam_search
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.decoding.top import best_words
from pipeline.errors import PipelineError


@dataclass(frozen=True)
class Settings:
    """Beam search with pairs."""

    beams: int
    """W, hypotheses that go on; smaller than the vocabulary."""
    hypotheses: int | None = None
    """K, finished hypotheses at which a sentence is done; W where nothing is said."""
    length_penalty: LengthPenalty = field(default_factory=LengthPenalty)
    """Ranks finished hypotheses of different lengths."""
    nbest: int = 1
    """N <= K, hypotheses to return."""

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise PipelineError(f"beams: {self.beams} must be at least 1")
        if not 1 <= self.nbest <= self.finish:
            raise PipelineError(f"nbest: {self.nbest} must lie between 1 and the hypotheses, {self.finish}")

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
    return beam_search(model, source, limit, _expansion(settings.beams, order.end), beams=settings.beams,
                       hypotheses=settings.finish, nbest=settings.nbest, penalty=settings.length_penalty)


def _expansion(W: int, end: int) -> Expand:
    """DOUBLETOPK and lines 8 to 20 of the algorithm."""
    def expand(log_probabilities: Tensor, scores: Tensor) -> Expansion:
        S, V = len(scores), log_probabilities.shape[2]
        n = min(3 * W, V - 1) + 1  # words of each beam and side, the end behind the others
        word_scores, words = best_words(log_probabilities.flatten(0, 1), n - 1, end)
        (lefts, rights), (left_words, right_words) = (
            both.view(S, W, 2, n).unbind(2) for both in (word_scores, words))

        left_scores, at = (lefts + scores.unsqueeze(2)).view(S, W * n).topk(2 * W)
        beams, left_words = torch.div(at, n, rounding_mode="floor"), left_words.reshape(S, W * n).gather(1, at)
        pairs = rights.gather(1, beams.unsqueeze(2).expand(-1, -1, n)).add_(left_scores.unsqueeze(2))
        pairs[:, :, :-1].masked_fill_((left_words == end).unsqueeze(2), -torch.inf)
        best, at = pairs.view(S, -1).topk(3 * W)
        left, right = torch.div(at, n, rounding_mode="floor"), at % n
        parents = beams.gather(1, left)
        right_words = right_words.reshape(S, W * n).gather(1, parents * n + right)
        words = torch.stack((left_words.gather(1, left), right_words), 2)

        ends = right == n - 1
        if not bool(ends.any()):
            return Expansion(Candidates(best, parents, words).first(W), None)
        unfinished, on = best.masked_fill(ends, -torch.inf).topk(W)
        going = Candidates(unfinished, parents.gather(1, on), words.gather(1, on.unsqueeze(2).expand(-1, -1, 2)))
        return Expansion(going, Candidates(best.masked_fill(~ends, -torch.inf), parents, words).first(W))
    return expand
