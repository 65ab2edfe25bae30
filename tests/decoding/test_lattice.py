"""Search in lattices that are written down, against every translation they hold."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scripted_lattice import Row, ScriptedLattice, Sentence, random_sentence
from sentences import sources
from torch import Tensor

from pipeline.decoding.beams import LengthPenalty
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.lattice import Settings, search
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, PAD

A, B, C, D = 7, 8, 9, 10
LIMIT = LengthLimit(ratio=1.0, extra=2, longest=8)
MIXED = sources(3, 6, 1, 4, 2, 5)

Translation = tuple[float, list[int]]
"""A score and words."""


def translations(found: Hypotheses, row: int) -> list[Translation]:
    """The hypotheses of a sentence; what is missing, and what stands after a translation, must look like it."""
    there = []
    for tokens, length, score, ended in zip(*(one[row].tolist() for one in (
            found.tokens, found.lengths, found.scores, found.ended)), strict=True):
        assert (score > -math.inf) == (length > 0) >= ended and not any(tokens[length:])
        if length:
            there.append((score, tokens[:length]))
    return there


def every_translation(sentence: Sentence, shortest: int, longest: int, k: int,
                      penalty: LengthPenalty) -> list[Translation]:
    """All that the k best candidates of every position can make, best first."""
    found = []
    for length in range(shortest, longest + 1):
        for words in itertools.product(*(list(known)[:k] for known in sentence.words[:length])):
            steps = itertools.pairwise((BOS, *words, EOS))
            score = sum(sentence.steps[t, before, after].item() for t, (before, after) in enumerate(steps))
            found.append((score / penalty(length + 1.0), list(words)))
    return sorted(found, key=lambda translation: -translation[0])


def same(found: list[Translation], expected: list[Translation]) -> bool:
    return ([words for _, words in found] == [words for _, words in expected]
            and [score for score, _ in found] == pytest.approx([score for score, _ in expected], abs=1e-9))


def certain(*words: int, length: int | None = None, vocabulary: int = 12) -> Sentence:
    """One candidate per position, each step's probability one half, and the end after every position one quarter."""
    steps = torch.full((len(words) + 1, vocabulary, vocabulary), math.log(0.5), dtype=torch.float64)
    steps[:, :, EOS] = math.log(0.25)
    return Sentence(length or len(words), [{word: -1.0} for word in words], steps)


def known(*by_length: Sentence) -> ScriptedLattice:
    """A source of n pieces has the n-th sentence."""
    return ScriptedLattice(lambda row: by_length[len(row) - 1])


def source_of(*pieces: int) -> Tensor:
    return torch.tensor([[A] * count + [PAD] * (max(pieces) - count) for count in pieces])


# By hand.

def test_the_better_path_and_not_the_better_words() -> None:
    """A is the likelier first word, but nothing good follows it."""
    steps = torch.full((3, 12, 12), -50.0, dtype=torch.float64)
    steps[0, BOS, [A, B]] = torch.tensor([0.7, 0.3], dtype=torch.float64).log()
    steps[1, A, [C, D]] = torch.tensor([0.1, 0.2], dtype=torch.float64).log()
    steps[1, B, [C, D]] = torch.tensor([0.9, 0.1], dtype=torch.float64).log()
    steps[2, [C, D], EOS] = math.log(0.8)
    model = known(Sentence(2, [{A: -0.1, B: -0.2}, {D: -0.1, C: -0.2}], steps))
    found = search(model, source_of(1), LIMIT, Settings(candidates=5, window=0))
    assert same(translations(found, 0), [(math.log(0.3 * 0.9 * 0.8), [B, C])])
    assert found.calls.tolist() == [1]
    assert model.asked == [(1, 2, 5), (1, 2)]


def test_the_window() -> None:
    """The shortest is the most probable; from L - D to L + D, but from 1, and not beyond the limit."""
    def lengths(predicted: int, window: int, most: int, relative: float = 0.0) -> list[int]:
        model, limit = known(certain(A, B, C, D, A, B, C, length=predicted)), LengthLimit(1.0, most - 1)
        found = search(model, source_of(1), limit, Settings(window=window, nbest=9, relative_window=relative))
        assert model.asked[0] == (1, max(found.lengths[0].tolist()), 64)
        reach = max(window, round(relative * predicted))
        assert found.ended[0, 0] == (predicted - reach <= most)  # otherwise the limit has cut it
        return [len(words) for _, words in translations(found, 0)]

    assert lengths(4, 2, 9) == [2, 3, 4, 5, 6]
    assert lengths(2, 3, 9) == [1, 2, 3, 4, 5]
    assert lengths(4, 2, 5) == [2, 3, 4, 5]
    assert lengths(7, 2, 3) == [3]
    assert lengths(7, 0, 9) == [7]
    assert lengths(1, 0, 1) == [1]
    assert lengths(4, 0, 9, 0.3) == [3, 4, 5]  # at least a share of L
    assert lengths(4, 2, 9, 0.3) == [2, 3, 4, 5, 6]
    assert lengths(7, 1, 3, 0.4) == [3]


def test_the_length_penalty_ranks_lengths() -> None:
    model = known(certain(A, B, C, D))
    by_sum, by_mean = (search(model, source_of(1), LIMIT, Settings(length_penalty=LengthPenalty(alpha=alpha)))
                       for alpha in (0.0, 1.0))
    assert same(translations(by_sum, 0), [(math.log(0.5 * 0.25), [A])])
    # Limit: 3 words; (3 log 0.5 + log 0.25) / 4 is more than (log 0.5 + log 0.25) / 2.
    assert same(translations(by_mean, 0), [((3 * math.log(0.5) + math.log(0.25)) / 4, [A, B, C])])


def test_words_may_repeat_and_stand_at_several_ranks() -> None:
    model = known(Sentence(3, [{A: -1.0, B: -2.0}, {B: -1.0, A: -2.0}, {A: -1.0}], certain(A, A, A).steps))
    found = search(model, source_of(1), LIMIT, Settings(window=0, nbest=5))
    assert [words for _, words in translations(found, 0)] == [[A, B, A], [B, B, A], [A, A, A], [B, A, A]]


# Against every translation.

@pytest.mark.parametrize("associative", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize("nbest", [1, 6])
@pytest.mark.parametrize("penalty", [LengthPenalty(alpha=0.0), LengthPenalty(alpha=0.8), LengthPenalty("gnmt", 1.0)])
def test_the_best_translations_of_a_batch(penalty: LengthPenalty, nbest: int, k: int, associative: bool) -> None:
    settings = Settings(k, 2, nbest, penalty, associative)
    found = search(ScriptedLattice(random_sentence), MIXED, LIMIT, settings)
    assert found.calls.tolist() == [1] * len(MIXED)
    for row, source in enumerate(MIXED):
        pieces = tuple(piece for piece in source.tolist() if piece != PAD)
        predicted, longest = len(pieces), min(len(pieces) + 2, 8)
        expected = every_translation(random_sentence(pieces), max(1, predicted - 2), longest, k, penalty)
        assert same(translations(found, row), expected[:nbest])
    assert len(set(found.lengths[:, 0].tolist())) > 2  # or this test would say little


@pytest.mark.parametrize("nbest", [1, 5])
def test_all_words_and_an_exact_model_are_exhaustive_search(nbest: int) -> None:
    """K = V, and a model that knows nothing but the word before: the most probable sentences of all."""
    alphabet = [A, B, C, D]
    generator = torch.Generator().manual_seed(5)
    table = torch.full((12, 12), -math.inf, dtype=torch.float64)
    allowed = [*alphabet, EOS]
    table[:, allowed] = torch.randn(12, len(allowed), generator=generator, dtype=torch.float64).log_softmax(1)
    sentence = Sentence(3, [dict.fromkeys(alphabet, math.log(0.25))] * 5, table.expand(6, -1, -1))
    found = search(known(sentence), source_of(1), LengthLimit(1.0, 4), Settings(len(alphabet), 2, nbest))
    expected = []
    for length in range(1, 6):
        for words in itertools.product(alphabet, repeat=length):
            score = sum(table[before, after].item() for before, after in itertools.pairwise((BOS, *words, EOS)))
            expected.append((score, list(words)))
    expected.sort(key=lambda translation: -translation[0])
    assert same(translations(found, 0), expected[:nbest])


@pytest.mark.parametrize("settings", [Settings(3), Settings(64, 2, 5), Settings(4, 3, 5, associative=True),
                                      Settings(4, 1, 2, LengthPenalty(alpha=1.0))])
def test_a_sentence_is_translated_the_same_in_any_batch(settings: Settings) -> None:
    model = ScriptedLattice(random_sentence)
    together = search(model, MIXED, LIMIT, settings)
    for row, source in enumerate(MIXED):
        for alone in (source[source != PAD].unsqueeze(0), source.unsqueeze(0)):
            assert same(translations(search(model, alone, LIMIT, settings), 0), translations(together, row))


def test_single_precision_finds_the_same() -> None:
    class Single(ScriptedLattice):
        def edges(self, memory: list[Sentence], candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            first, inner, end = super().edges(memory, candidates)
            return first.float(), inner.float(), end.float()

    double, single = (search(model(random_sentence), MIXED, LIMIT, Settings(nbest=3, window=2))
                      for model in (ScriptedLattice, Single))
    assert torch.equal(double.tokens, single.tokens) and torch.equal(double.lengths, single.lengths)
    assert single.scores.dtype == torch.float32
    torch.testing.assert_close(single.scores.double(), double.scores, rtol=0, atol=1e-4)


# Where something is missing.

def test_a_position_without_candidates_ends_the_lattice() -> None:
    sentence = certain(A, B, C, D)
    sentence.words[2] = {}
    for nbest in (1, 5):
        found = search(known(sentence), source_of(1), LengthLimit(1.0, 9), Settings(nbest=nbest, window=2))
        assert same(translations(found, 0), [(math.log(0.25 * 0.25), [A, B])])
    found = search(known(sentence), source_of(1), LengthLimit(1.0, 9), Settings(nbest=2, window=1))
    assert translations(found, 0) == [] and found.scores.eq(-math.inf).all()


def test_no_translation_of_one_sentence_is_none_of_another() -> None:
    nothing = certain(A, B)._replace(words=[{}, {B: -1.0}])
    found = search(known(nothing, certain(B, C)), source_of(1, 2), LIMIT, Settings(window=0))
    assert translations(found, 0) == [] and same(translations(found, 1), [(math.log(0.25 * 0.25), [B, C])])


def test_an_empty_batch() -> None:
    found = search(ScriptedLattice(random_sentence), torch.zeros(0, 4, dtype=torch.long), LIMIT, Settings(nbest=2))
    assert found.scores.shape == (0, 2) and found.calls.shape == (0,)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("nbest", [1, 2])
def test_scores_that_are_not_finite(value: float, nbest: int) -> None:
    def script(row: Row) -> Sentence:
        sentence = certain(A, B, C)
        if len(row) == 2:
            sentence.steps[1, A, B] = value
        return sentence

    with pytest.raises(PipelineError, match=r"the lattice's scores are not finite .* sentence 2 of the batch"):
        search(ScriptedLattice(script), source_of(1, 2), LIMIT, Settings(nbest=nbest))


# Settings.

@pytest.mark.parametrize(("settings", "message"), [
    ({"candidates": 0}, r"decoders\.mine\.candidates: 0 must be at least 1"),
    ({"window": -1}, "window: -1 must be at least 0"),
    ({"relative_window": 1.5}, "relative_window: 1.5 must be at least 0 and at most 1"),
    ({"nbest": 0}, "nbest: 0 must be at least 1"),
    ({"length_penalty": {"alpha": -1.0}}, "length_penalty.alpha: -1.0 must be at least 0"),
    ({"beams": 4}, r"decoders\.mine\.beams is unknown")])
def test_impossible_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make_decoder("mine", {"algorithm": "lattice", **settings}, LIMIT)


def test_an_entry_of_params(tiny: Callable[..., Transformer]) -> None:
    decode = make_decoder("mine", {"algorithm": "lattice", "candidates": 2, "window": 1}, LIMIT)
    model = ScriptedLattice(random_sentence)
    assert torch.equal(decode(model, MIXED).tokens, search(model, MIXED, LIMIT, Settings(2, 1)).tokens)
    assert make_decoder("mine", {"algorithm": "lattice"}, LIMIT)(model, MIXED[:1]).tokens.shape == (1, 1, 5)
    with pytest.raises(PipelineError, match=r"decoders.mine: lattice searches lattice models.* is ordered"):
        decode(tiny(), MIXED)
    with pytest.raises(PipelineError, match="searches ordered models, and this one is lattice; choose another"):
        make_decoder("mine", {"algorithm": "beam", "beams": 2}, LIMIT)(model, MIXED)
