"""Ranks before search, by hand and against loops."""

from dataclasses import dataclass

import pytest
import torch
from lattices import lattice
from sentences import sources
from torch import Tensor

from pipeline.decoding.lattice import Settings, search
from pipeline.decoding.limits import LengthLimit
from pipeline.evaluation.analyses.lattice.search_moves import chosen_ranks, search_moves
from pipeline.vocabulary import PAD

LIMIT = LengthLimit(ratio=2.0, extra=5, longest=20)
NAN = torch.nan


@dataclass
class Written:
    """A lattice of one sentence, written down."""

    words: Tensor
    first: Tensor
    inner: Tensor
    kind: str = "lattice"
    verifier: None = None

    def length(self, source: Tensor) -> Tensor:
        return torch.tensor([self.words.shape[1]])

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        return self.words, torch.zeros_like(self.words, dtype=torch.float64)

    def encode(self, source: Tensor) -> None:
        """Nothing to remember."""

    def edges(self, memory: None, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.first, self.inner, torch.zeros_like(candidates, dtype=torch.float64)


def test_ranks_by_hand() -> None:
    # Search goes 8 - 11 (-3 - 1): 12 has the best edge, but from 9, which is far; 10 ties with 11 and is earlier.
    words = torch.tensor([[[7, 8, 9], [10, 11, 12]]])
    first = torch.tensor([[-4.0, -3.0, -20.0]], dtype=torch.float64)
    inner = torch.tensor([[[[-2.0, -2.5, -9.0], [-9.0, -1.0, -9.0], [-1.0, -3.0, -0.5]]]], dtype=torch.float64)
    model = Written(words, first, inner)
    assert search(model, torch.tensor([[7, 3]]), LIMIT, Settings(3, 0)).tokens.tolist() == [[[8, 11]]]
    assert chosen_ranks(model, torch.tensor([[7, 3]]), LIMIT, 3)[0].tolist() == [1, 3]
    finding = search_moves(model, [torch.tensor([[7, 3]])], LIMIT, 3, samples=9)
    assert finding.metric["share_by_rank"] == {"1": 0.5, "2": 0.0, "3": 0.5}
    assert (finding.metric["words"], finding.metric["moved_words"], finding.metric["moved_share"]) == (2, 1, 0.5)


def test_padding_has_no_rank_and_leads_nowhere() -> None:
    words = torch.tensor([[[7, PAD], [9, 10]]])
    first = torch.tensor([[-1.0, NAN]], dtype=torch.float64)
    inner = torch.tensor([[[[-1.0, -2.0], [-3.0, 9.0]]]], dtype=torch.float64)
    assert chosen_ranks(Written(words, first, inner), torch.tensor([[7, 3]]), LIMIT, 2)[0].tolist() == [1, 1]


@pytest.mark.parametrize("k", [1, 3, 6, 40])
def test_ranks_against_loops(k: int) -> None:
    model, batch = lattice(), sources(3, 9, 1, 6, 2, 4)
    expected = []
    for source in batch:
        alone = source[source != PAD].unsqueeze(0)
        chosen = search(model, alone, LIMIT, Settings(candidates=k, window=0)).tokens[0, 0].tolist()
        words = model.candidates(alone, len(chosen), k)[0]
        first, inner, _ = model.edges(model.encode(alone), words)
        for t, word in enumerate(chosen):
            real = [i for i, one in enumerate(words[0, t].tolist()) if one != PAD]
            before = [i for i, one in enumerate(words[0, t - 1].tolist()) if one != PAD]
            scores = {j: max(float(inner[0, t - 1, i, j]) for i in before) if t else float(first[0, j]) for j in real}
            ranked = sorted(real, key=lambda j: -scores[j])
            expected.append(1 + [int(words[0, t, j]) for j in ranked].index(word))
    assert sorted(torch.cat(chosen_ranks(model, batch, LIMIT, k)).tolist()) == sorted(expected)
    finding = search_moves(model, [batch[:2], batch[2:]], LIMIT, k, samples=9)
    shares = [sum(rank == one for rank in expected) / len(expected) for one in range(1, k + 1)]
    assert list(finding.metric["share_by_rank"].values()) == pytest.approx(shares)
    assert finding.metric["moved_words"] == sum(rank > 1 for rank in expected)
    assert (finding.metric["moved_words"] > 0) == (k > 1)  # with one candidate there is nothing to move to
