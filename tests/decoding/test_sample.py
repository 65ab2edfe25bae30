"""Sampling: words come as often as the model's probabilities say. (That a batch is its sentences: test_contract.py.)"""

import math
from collections import Counter

import pytest
import torch
from orders import EVERY_ORDER
from scripted import Row, Scripted, logits, random_script
from torch import Tensor

from pipeline.decoding import greedy, sample
from pipeline.decoding.limits import LengthLimit
from pipeline.vocabulary import EOS

A, B, DRAWS = 7, 8, 4000
SOURCE, LIMIT = torch.tensor([[A, B, EOS]]), LengthLimit(ratio=0.0, extra=2)
PROBABILITIES = {A: 0.6, B: 0.3, EOS: 0.1}


def steady(source: Row, prefix: Row) -> Tensor:
    """The same probabilities after every prefix."""
    return logits({word: math.log(share) for word, share in PROBABILITIES.items()})


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, 0), (0.5, 0), (2.0, 2)])
def test_words_are_as_frequent_as_their_probabilities(temperature: float, top_k: int) -> None:
    """Five standard deviations are allowed. The limit is two words; the third call would be for the end."""
    found = sample.search(Scripted(EVERY_ORDER["left_to_right"], steady), SOURCE, LIMIT,
                          sample.Settings(temperature, top_k, nbest=DRAWS))
    shares = {word: share ** (1 / temperature) for word, share in list(PROBABILITIES.items())[:top_k or None]}
    shares = {word: share / sum(shares.values()) for word, share in shares.items()}
    rows = zip(found.tokens[0].tolist(), found.lengths[0].tolist(), found.ended[0].tolist(), strict=True)
    texts = Counter((*row[:length], *[EOS] * ended) for row, length, ended in rows)
    ends = [(EOS,), (A, EOS)] if EOS in shares else []
    for one in (*ends, (A, B, A), (B, B, B)):
        expected = math.prod(shares[word] for word in one)
        assert texts[one] / DRAWS == pytest.approx(expected, abs=5 * math.sqrt(expected / DRAWS)), one
    assert (EOS in shares) == bool(found.ended.any())
    # Scores are the model's own log-probabilities, whatever it was drawn with, best first.
    assert found.scores[0].tolist() == sorted(found.scores[0].tolist(), reverse=True)
    words = [*found.tokens[0, 0, :found.lengths[0, 0]].tolist(), *[EOS] * bool(found.ended[0, 0])]
    assert found.scores[0, 0].item() == pytest.approx(sum(math.log(PROBABILITIES[word]) for word in words))


@pytest.mark.parametrize("order", ["left_to_right", "right_to_left"])
def test_drawing_from_the_best_word_is_greedy_search(order: str) -> None:
    source = torch.tensor([[A, B, EOS], [B, A, EOS], [A, A, EOS]])
    model = Scripted(EVERY_ORDER[order], random_script(EVERY_ORDER[order], 3, 5, 12))
    limit = LengthLimit(ratio=2.0, extra=2)
    expected = greedy.search(model, source, limit)
    found = sample.search(model, source, limit, sample.Settings(top_k=1, nbest=2))
    for name in ("tokens", "lengths", "scores", "ended"):
        for place in (0, 1):
            torch.testing.assert_close(getattr(found, name)[:, place], getattr(expected, name)[:, 0])
    assert found.calls.tolist() == expected.calls.tolist()


def test_seeds_and_sources_draw_differently() -> None:
    model, wide = Scripted(EVERY_ORDER["interleaved"], random_script(EVERY_ORDER["interleaved"], 5, 1, 12)), \
        LengthLimit(ratio=3.0, extra=5)
    first, again, other = (sample.search(model, SOURCE, wide, sample.Settings(nbest=8, seed=seed)).tokens
                           for seed in (1, 1, 2))
    assert torch.equal(first, again) and (first.shape != other.shape or not torch.equal(first, other))
    both = torch.tensor([[A, B, EOS], [B, A, EOS]])
    alike = sample.search(Scripted(EVERY_ORDER["left_to_right"], steady), both, LIMIT, sample.Settings(nbest=20)).tokens
    assert not torch.equal(alike[0], alike[1])  # of the same probabilities


def test_the_end_fills_the_slots_after_it() -> None:
    order = EVERY_ORDER["interleaved"]
    model = Scripted(order, lambda source, prefix: steady(source, prefix).expand(2, -1))
    found = sample.search(model, SOURCE, LengthLimit(ratio=0.0, extra=5), sample.Settings(nbest=200))
    ended = found.ended[0]
    words = found.lengths[0, ended]
    expected = [sum(math.log(PROBABILITIES[word]) for word in row[:length]) + (1 + (length + 1) % 2) * math.log(0.1)
                for row, length in zip(found.tokens[0, ended].tolist(), words.tolist(), strict=True)]
    assert found.scores[0, ended].tolist() == pytest.approx(expected) and set((words % 2).tolist()) == {0, 1}
