"""Beam search whose translations contain given terms: dynamic beam allocation (Post and Vilar 2018), for one sentence.

A hypothesis has made some progress: the tokens of the terms that it contains, and those of the one that it has begun.
Candidates of a step are, per beam, its K best tokens and the next token of every term that it still lacks; it may end
once it lacks none. The K beams are shared out among the degrees of progress, in turns from the highest, until all are
given: a hypothesis that is nearest to its terms always goes on, and so do some that will place them later. A
degree with too few candidates leaves its share to the others. Without terms there is one degree, and this is beam
search.

The paper gives every degree the same number of beams and moves what is left over to its neighbours; Hu et al. (2019)
keep terms in a trie. A sentence has few terms, so here each is compared with the last tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.decoding.beams import Candidates, Expansion
from pipeline.model.top import best_k_and_end
from pipeline.vocabulary import PAD

Term = tuple[int, ...]


class Progress(NamedTuple):
    """How far a hypothesis is with its terms."""

    lacking: tuple[Term, ...]
    """The terms that it does not contain yet, the longest first."""
    tail: Term
    """Its last tokens, as many as may begin one of them. Terms may overlap, and one may be a part of another one."""
    placed: int
    """The number of tokens of the terms that it contains."""

    @property
    def degree(self) -> int:
        """The number of tokens of the terms that it contains or has begun."""
        return self.placed + max((self._begun(term) for term in self.lacking), default=0)

    def following(self) -> list[int]:
        """The next token of every term that is lacking."""
        return [term[self._begun(term)] for term in self.lacking]

    def after(self, token: int) -> "Progress":
        """The progress with another token."""
        tail = (*self.tail, token)
        lacking = tuple(term for term in self.lacking if tail[-len(term):] != term)
        longest = max(map(len, lacking), default=1) - 1
        placed = self.placed + sum(map(len, self.lacking)) - sum(map(len, lacking))
        return Progress(lacking, tail[max(len(tail) - longest, 0):], placed)

    def _begun(self, term: Term) -> int:
        """How many tokens of a term the tail ends with."""
        return next(n for n in range(min(len(term) - 1, len(self.tail)), -1, -1)
                    if self.tail[len(self.tail) - n:] == term[:n])


class _Candidate(NamedTuple):
    score: float
    parent: int
    word: int
    progress: Progress


class TermExpansion:
    """The `beams.Expand` of one sentence whose translations contain terms; it is used for one search."""

    def __init__(self, terms: Sequence[Sequence[int]], beams: int, end: int, steps: int) -> None:
        """Args:
            terms: tokens of each, at least one.
            beams: K.
            end: the end symbol.
            steps: the most steps of the search.
        """
        lacking = tuple(sorted({tuple(term) for term in terms}, key=lambda term: (-len(term), term)))
        self._rows = [Progress(lacking, (), 0)] * beams
        self._end, self._left, self._complete = end, steps, False

    def __call__(self, log_probabilities: Tensor, scores: Tensor) -> Expansion:
        """The expansion of one step; see `beams.Expand`."""
        K = len(self._rows)
        candidates = self._candidates(log_probabilities[:, 0], scores[0])
        ended = [one for one in _share_out(candidates, K) if one.word == self._end]
        going = sorted(_share_out([one for one in candidates if one.word != self._end], K),
                       key=lambda one: -one.score)
        self._left -= 1
        self._complete |= bool(ended) or any(not one.progress.lacking for one in going)
        if not self._left and self._complete:  # what is cut at the limit without its terms is no translation
            going = [one for one in going if not one.progress.lacking]
        # Beams without a candidate have no chance.
        spare = _Candidate(-torch.inf, 0, PAD, self._rows[0])
        going += [spare] * (K - len(going))
        self._rows = [one.progress for one in going]

        def together(some: list[_Candidate]) -> Candidates:
            return Candidates(scores.new_tensor([[one.score for one in some]], dtype=log_probabilities.dtype),
                              torch.tensor([[one.parent for one in some]], device=scores.device),
                              torch.tensor([[[one.word] for one in some]], device=scores.device))
        return Expansion(together(going), together(ended) if ended else None)

    def _candidates(self, log_probabilities: Tensor, scores: Tensor) -> list[_Candidate]:
        """The candidates of all beams that are possible, best first."""
        wanted = [(beam, word) for beam, progress in enumerate(self._rows) for word in progress.following()]
        beams, following = torch.tensor(wanted, dtype=torch.long, device=scores.device).view(-1, 2).T
        likely: list[dict[int, float]] = [{} for _ in self._rows]
        for (beam, word), gained in zip(wanted, log_probabilities[beams, following].tolist(), strict=True):
            likely[beam][word] = gained
        best, words = (found.tolist() for found in best_k_and_end(log_probabilities, len(self._rows), self._end))
        found = []
        for beam, (score, progress) in enumerate(zip(scores.tolist(), self._rows, strict=True)):
            options = dict(zip(words[beam], best[beam], strict=True)) | likely[beam]
            if progress.lacking:
                del options[self._end]
            found += [_Candidate(score + gained, beam, word, progress if word == self._end else progress.after(word))
                      for word, gained in options.items() if score + gained > -torch.inf]
        return sorted(found, key=lambda one: -one.score)


def _share_out(candidates: list[_Candidate], beams: int) -> list[_Candidate]:
    """The candidates that get a beam: in turns one of every degree of progress, from the highest, the best first."""
    degrees: dict[int, list[_Candidate]] = {}
    for one in candidates:
        degrees.setdefault(one.progress.degree, []).append(one)
    queues, kept = [iter(degrees[degree]) for degree in sorted(degrees, reverse=True)], list[_Candidate]()
    while queues and len(kept) < beams:
        for queue in list(queues):
            following = next(queue, None)
            if following is None:
                queues.remove(queue)
            elif len(kept) < beams:
                kept.append(following)
    return kept
