"""Beam search, for every generation order (Zhang et al. 2020, after Algorithm 1; ordinary beam search if z = 1).

In the paper each hypothesis contributes its K best steps, and all of these that end are kept, up to K * K per sentence.
Here, as in other beam searches (and in `beams`), a candidate that ends is kept if it is among the K best candidates of
its sentence at that step, whether they end or not; K candidates that do not end always go on. The paper's rule finishes
earlier, often with hypotheses that are worse by its own score.

The slots of a step are independent given the past, so a candidate has a rank in the sorted words of each slot. If its
ranks are r_1 … r_z (from 1), then r_1 · … · r_z candidates have no higher rank in any slot and are at least as good.
So, except for ties, the K best candidates have products of at most K. Of K ** z candidates per beam, few do: 8 of 16
for K = 4 and z = 2, 19 of 256 for z = 4, 89 of 10,000 for K = 10 and z = 4. All of them are added up at once. Their
number grows as K · log(K) ** (z - 1). Merging slot after slot grows as z · K · log(K), which is more at these sizes (32
and 133 in the last two cases, with logarithms to base 2), and takes z times as many calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.checks import Checked, Positive, Refused
from pipeline.decoding.beams import Candidates, Expand, Expansion, LengthPenalty, beam_search
from pipeline.decoding.forced import Prefixed
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.decoding.terms import TermExpansion
from pipeline.decoding.traits import Traits
from pipeline.engine.waiting import waits
from pipeline.model.top import best_k_and_end

TRAITS = Traits(takes_shortlist=True, takes_terms=True, in_one_call=True)


@dataclass(frozen=True)
class Settings(Checked):
    """Beam search."""

    beams: Positive
    """K, hypotheses per sentence; smaller than the vocabulary."""
    length_penalty: LengthPenalty = field(default_factory=LengthPenalty)
    """Ranks finished hypotheses of different lengths."""
    nbest: Positive = 1
    """N <= K, hypotheses to return."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nbest > self.beams:
            raise Refused(f"nbest: {self.nbest} must not exceed the beams, {self.beams}")


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings,
           terms: Sequence[Sequence[int]] = ()) -> Hypotheses:
    """Search with K beams per sentence; see `beam_search` for result and errors.

    With terms (the tokens of each), `source` is one sentence, all of whose hypotheses contain them (`terms`), unless
    the limit comes first; the model then generates word after word from left to right (`settings` checks it).
    """
    K, z = settings.beams, model.order.width
    if terms:
        expand = TermExpansion(terms, K, model.order.end, int(limit.steps(source, model.order)[0]))
        # With nothing forced, `Prefixed` only keeps the compiled loop away, which knows no terms.
        return beam_search(Prefixed(model, [[]]), source, limit, expand, beams=K, hypotheses=K, nbest=settings.nbest,
                           penalty=settings.length_penalty, candidates=None)
    found = _candidates(K, z, torch.device("cpu"))
    return beam_search(model, source, limit, _expansion(K, z, model.order.end, source.device), beams=K, hypotheses=K,
                       nbest=settings.nbest, penalty=settings.length_penalty,
                       candidates=(found.parents.numpy(), found.places.numpy(), found.going))


def _expansion(K: int, z: int, end: int, device: torch.device) -> Expand:
    """The exact K best joint steps."""
    going, parents, places, by_slot = _candidates(K, z, device)
    N = len(places)

    def expand(log_probabilities: Tensor, scores: Tensor) -> Expansion:
        S = len(scores)
        word_scores, words = best_k_and_end(log_probabilities.flatten(0, 1), K, end)
        word_scores.view(S, K, z, K + 1).select(2, 0).add_(scores.unsqueeze(2))
        joint = word_scores.view(S, -1).index_select(1, by_slot).view(S, z, N).sum(1)

        def candidates(best: Tensor, at: Tensor) -> Candidates:
            chosen = places.index_select(0, at.view(-1)).view(S, K * z)
            return Candidates(best, parents.take(at), words.view(S, -1).gather(1, chosen).view(S, K, z))

        best, at = joint.topk(K)
        if not waits(device) and int(at.max()) < going:
            return Expansion(candidates(best, at), None)
        ended = candidates(best.masked_fill(at < going, -torch.inf), at)
        return Expansion(candidates(*joint[:, :going].topk(K)), ended)
    return expand


class _Places(NamedTuple):
    """The words of N candidates, as indices into a row of words.

    The row of a sentence's step has, for each of K beams and z slots, the K best words and then the end symbol.
    """

    going: int
    """The number of candidates that go on; they come before those that end."""
    parents: Tensor
    """(N,) beams."""
    places: Tensor
    """(N, z)."""
    by_slot: Tensor
    """(z * N,), `places` slot by slot."""


@lru_cache(maxsize=32)
def _candidates(K: int, z: int, device: torch.device) -> _Places:
    going, ending = _ranks(K, z)
    slots = (K + 1) * torch.arange(K * z).view(K, 1, z)
    places = torch.cat([(slots + torch.tensor(ranks)).view(-1, z) for ranks in (going, ending)]).to(device)
    parents = places[:, 0] // (z * (K + 1))
    return _Places(K * len(going), parents, places, places.t().reshape(-1))


def _ranks(K: int, z: int) -> tuple[list[list[int]], list[list[int]]]:
    """The ranks (from 0) in z slots of candidates that go on, and of those that end, where K means the end symbol.

    Words fill all slots or the first j < z. The product of their ranks, counted from 1, is at most K.

    >>> _ranks(3, 2)
    ([[0, 0], [0, 1], [0, 2], [1, 0], [2, 0]], [[3, 3], [0, 3], [1, 3], [2, 3]])
    """
    prefixes, ending = [(1, [])], []  # type: ignore[var-annotated]
    for j in range(z):
        ending += [ranks + [K] * (z - j) for _, ranks in prefixes]
        prefixes = [(product * rank, [*ranks, rank - 1]) for product, ranks in prefixes
                    for rank in range(1, K // product + 1)]
    return [ranks for _, ranks in prefixes], ending
