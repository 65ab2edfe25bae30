"""One step of either beam search against the enumeration of its candidates."""

from itertools import pairwise, product
from math import prod

import pytest
import torch
from scripted import Row
from torch import Tensor

from pipeline.decoding import beam, pair_beam
from pipeline.decoding.beams import Candidates

Way = tuple[float, int, Row]
"""Score, beam and words of a candidate."""


def random_step(z: int, K: int, V: int, end: int, seed: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities (2 * K, z, V) of two sentences and scores (2, K); the end symbol is likely."""
    generator = torch.Generator().manual_seed(seed)
    rows = 2 * torch.randn(2 * K, z, V, generator=generator, dtype=torch.float64)
    rows[:, :, end] += 2
    return rows.log_softmax(2), torch.randn(2, K, generator=generator, dtype=torch.float64).sort(1, True).values


def check(found: Candidates, sentence: int, expected: list[Way]) -> None:
    """The candidates of a sentence that are possible are the expected ones, in this order."""
    ways = [(score, parent, tuple(words)) for score, parent, words in zip(
        found.scores[sentence].tolist(), found.parents[sentence].tolist(), found.words[sentence].tolist(), strict=True)
        if score > -torch.inf]
    assert [way[1:] for way in ways] == [way[1:] for way in expected]
    assert [way[0] for way in ways] == pytest.approx([way[0] for way in expected], abs=1e-12)


def no_word_after_an_end(words: Row, end: int) -> bool:
    return all(first != end or second == end for first, second in pairwise(words))


@pytest.mark.parametrize(("z", "K", "V"), [(1, 1, 4), (1, 5, 7), (2, 1, 6), (2, 4, 9), (3, 3, 6), (4, 4, 6), (5, 2, 4)])
@pytest.mark.parametrize("seed", range(6))
def test_a_step_of_beam_search_against_all_candidates(z: int, K: int, V: int, seed: int) -> None:
    """The K best of V ** z steps a beam, and among the K best of those that end and those that do not, the ends."""
    end = 3
    rows, scores = random_step(z, K, V, end, seed)
    found = beam._expansion(K, z, end, torch.device("cpu"))(rows.clone(), scores)
    some_end = False
    for sentence in range(2):
        ways: list[Way] = sorted((
            (scores[sentence, k].item() + sum(rows[sentence * K + k, slot, word].item()
                                              for slot, word in enumerate(step)), k, step)
            for k in range(K) for step in product(range(V), repeat=z) if no_word_after_an_end(step, end)),
            reverse=True)
        check(found.going, sentence, [way for way in ways if end not in way[2]][:K])
        ends = [way for way in ways[:K] if end in way[2]]
        some_end |= bool(ends)
        if found.ended is not None:
            check(found.ended, sentence, ends)
    assert some_end is (found.ended is not None)


@pytest.mark.parametrize(("K", "z"), [(1, 1), (7, 1), (4, 2), (10, 2), (5, 3), (4, 4), (10, 4), (3, 6)])
def test_few_candidates_can_be_among_the_best(K: int, z: int) -> None:
    """Those of K ** z with fewer than K others that are at least as good in every slot."""
    going, ending = beam._ranks(K, z)
    below_k = [ranks for ranks in product(range(K), repeat=z) if prod(rank + 1 for rank in ranks) <= K]
    assert sorted(going) == [list(ranks) for ranks in below_k]
    assert sorted(ending) == sorted([*ranks[:j], *[K] * (z - j)] for ranks in below_k for j in range(z)
                                    if not any(ranks[j:]))


def pairs_by_hand(rows: Tensor, scores: Tensor, W: int, end: int) -> list[Way]:
    """The 3W pairs of one sentence: first 2W (beam, left word), then the right words of those."""
    V = rows.shape[2]
    lefts = sorted(((scores[k].item() + rows[k, 0, left].item(), k, left) for k in range(W) for left in range(V)),
                   reverse=True)[:2 * W]
    return sorted(((score + rows[k, 1, right].item(), k, (left, right)) for score, k, left in lefts
                   for right in range(V) if left != end or right == end), reverse=True)[:3 * W]


@pytest.mark.parametrize(("W", "V"), [(1, 3), (1, 8), (2, 4), (3, 9), (4, 5), (10, 16), (13, 60)])
@pytest.mark.parametrize("seed", range(8))
def test_a_step_of_pairs_against_the_algorithm(W: int, V: int, seed: int) -> None:
    end = 2
    rows, scores = random_step(2, W, V, end, seed)
    found = pair_beam._expansion(W, end, torch.device("cpu"))(rows.clone(), scores)
    some_end = False
    for sentence in range(2):
        pairs = pairs_by_hand(rows[sentence * W:(sentence + 1) * W], scores[sentence], W, end)
        ends, unfinished = [way for way in pairs[:W] if end in way[2]], [way for way in pairs if end not in way[2]]
        assert len(unfinished) >= W  # there is always enough to go on with
        check(found.going, sentence, unfinished[:W])
        some_end |= bool(ends)
        if found.ended is not None:
            check(found.ended, sentence, ends)
    assert found.ended is not None or not some_end
