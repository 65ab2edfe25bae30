"""Mask-Predict by hand on models that are written down, and against a plain reading of the paper on real ones."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from masked import Row, Script, Scripted, certain, masked, only
from sentences import sources, words
from torch import Tensor

from pipeline.decoding.beams import LengthPenalty
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.mask_predict import Settings, search
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.model.masked import MaskedTransformer
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOD, EOS, LENGTH, MASK, PAD, UNK

A, B, C, D = 7, 8, 9, 10
LIMIT = LengthLimit(ratio=1.5, extra=4, longest=23)


def source_of(sentences: int, pieces: int = 12) -> Tensor:
    return torch.full((sentences, pieces), A)


def test_three_iterations_by_hand() -> None:
    """Of four words 4, then floor(4 * 2 / 3) = 2, then floor(4 / 3) = 1 are predicted."""
    def script(call: int, row: Row) -> Tensor:
        return [
            certain(row, (A, 0.9), (A, 0.3), (B, 0.5), (B, 0.8)),
            certain(row, (D, 0.99), (C, 0.6), (C, 0.4), (D, 0.99)),  # A and B at the ends were not asked for
            certain(row, (D, 0.99), (D, 0.99), (D, 0.7), (D, 0.99)),
        ][call]

    model = Scripted(only(4), script)
    found = search(model, source_of(1), LIMIT, Settings(iterations=3, candidates=1))
    assert model.fed == [[(MASK, MASK, MASK, MASK)], [(A, MASK, MASK, B)], [(A, C, MASK, B)]]
    assert words(found) == [[[A, C, D, B]]]
    assert found.scores.item() == pytest.approx(sum(map(math.log, (0.9, 0.6, 0.7, 0.8))) / 4, abs=1e-12)
    assert found.calls.tolist() == [3] and found.ended.all()


@pytest.mark.parametrize("iterations", [1, 2, 4, 10])
def test_how_many_words_are_hidden(iterations: int) -> None:
    """All lengths in one batch: what is hidden of a row, and when it is done, depends on its own length."""
    lengths = range(24)
    model = Scripted(only(*lengths), lambda call, row: torch.rand(
        len(row), 12, generator=torch.Generator().manual_seed(call), dtype=torch.float64))
    found = search(model, source_of(24, 20), LIMIT, Settings(iterations, candidates=1))
    assert len(model.fed) == iterations
    for t, rows in enumerate(model.fed):
        assert [row.count(MASK) for row in rows] == [math.floor(n * (iterations - t) / iterations) for n in lengths]
    assert found.calls.tolist() == [sum(rows[n].count(MASK) > 0 for rows in model.fed) for n in lengths]
    assert found.calls[10:].tolist() == [iterations] * 14
    assert found.lengths[:, 0].tolist() == list(lengths)


def test_calls_that_could_change_nothing_are_not_made() -> None:
    model = Scripted(only(1, 3), lambda call, row: certain(row, *[(A, 0.5)] * len(row)))
    found = search(model, source_of(2), LIMIT, Settings(iterations=10, candidates=1))
    assert len(model.fed) == 7  # floor(3 * 3 / 10) = 0
    assert found.calls.tolist() == [1, 7]


def test_one_iteration_takes_the_likeliest_words() -> None:
    model = Scripted(only(3), lambda call, row: certain(row, (C, 0.2), (A, 0.7), (B, 0.4)))
    found = search(model, source_of(1), LIMIT, Settings(iterations=1, candidates=1))
    assert words(found) == [[[C, A, B]]]
    assert found.scores.item() == pytest.approx((math.log(0.2) + math.log(0.7) + math.log(0.4)) / 3, abs=1e-12)


def test_ties() -> None:
    """The lowest of equally likely words, and the first of equally certain ones is predicted again."""
    tied = torch.zeros(3, 12, dtype=torch.float64)
    tied[:, [C, A, D]] = 1 / 3
    model = Scripted(only(3), lambda call, row: tied)
    assert words(search(model, source_of(1), LIMIT, Settings(3, 1))) == [[[A, A, A]]]
    assert model.fed == [[(MASK, MASK, MASK)], [(MASK, MASK, A)], [(MASK, A, A)]]


def test_only_words_are_predicted() -> None:
    specials = (PAD, BOS, EOS, MASK, EOD, LENGTH)

    def script(call: int, row: Row) -> Tensor:
        probabilities = torch.full((len(row), 12), 0.01, dtype=torch.float64)
        probabilities[:, list(specials)] = 0.14
        probabilities[:, [A, UNK]] = torch.tensor([[0.06, 0.07], [0.07, 0.06]], dtype=torch.float64)[:len(row)]
        return probabilities / probabilities.sum(1, keepdim=True)

    found = search(Scripted(only(2), script), source_of(1), LIMIT, Settings(2, 1))
    assert words(found) == [[[UNK, A]]]
    assert found.scores.item() == pytest.approx(math.log(0.07 / 1.01), abs=1e-12)  # the model's own probability


def by_length(certainty: dict[int, float]) -> Script:
    """The same certainty for all words of a row, by its length."""
    return lambda call, row: certain(row, *[(A, certainty[len(row)])] * len(row))


def test_the_best_mean_wins_and_not_the_best_sum() -> None:
    model = Scripted([[0.0, 0.1, 0.4, 0.2, 0.3, 0.0]], by_length({1: 0.5, 2: 0.55, 3: 0.9, 4: 0.7}))
    found = search(model, source_of(1), LIMIT, Settings(1, candidates=4, nbest=4))
    assert [len(row) for row in model.fed[0]] == [2, 4, 3, 1]
    assert found.lengths.tolist() == [[3, 4, 2, 1]]
    assert found.scores[0].exp().tolist() == pytest.approx([0.9, 0.7, 0.55, 0.5], abs=1e-12)
    one = search(model, source_of(1), LIMIT, Settings(1, candidates=4))
    assert words(one) == [[[A, A, A]]]
    two = search(model, source_of(1), LIMIT, Settings(1, candidates=2))
    assert one.scores.shape == (1, 1) and two.lengths.tolist() == [[4]]  # length 3 was no candidate


def test_a_greater_exponent_of_the_length_penalty_prefers_longer_candidates() -> None:
    """By hand: the means are log 0.9 and log 0.8; divided by n ** 2 instead of n, -0.0527 and -0.0446."""
    model = Scripted([[0.0, 0.0, 0.6, 0.0, 0.0, 0.4]], by_length({2: 0.9, 5: 0.8}))
    assert search(model, source_of(1), LIMIT, Settings(1, 2, LengthPenalty(), 2)).lengths.tolist() == [[2, 5]]
    found = search(model, source_of(1), LIMIT, Settings(1, 2, LengthPenalty(alpha=2.0), 2))
    assert found.lengths.tolist() == [[5, 2]]
    assert found.scores[0].tolist() == pytest.approx([math.log(0.8) / 5, math.log(0.9) / 2], abs=1e-12)
    gnmt = search(model, source_of(1), LIMIT, Settings(1, 2, LengthPenalty("gnmt", 1.0), 2))
    assert gnmt.scores[0].tolist() == pytest.approx([2 * math.log(0.9) * 6 / 7, 5 * math.log(0.8) * 6 / 10], abs=1e-12)


def test_of_equal_candidates_the_more_probable_length_wins() -> None:
    model = Scripted([[0.0, 0.3, 0.3, 0.4]], by_length({1: 1.0, 2: 1.0, 3: 1.0}))
    assert search(model, source_of(1), LIMIT, Settings(1, candidates=3, nbest=3)).lengths.tolist() == [[3, 1, 2]]


def test_lengths_beyond_the_limit_are_no_candidates() -> None:
    """The limit of each sentence is that of its own source."""
    model = Scripted([[0.0, 0.1, 0.2, 0.3, 0.4]] * 3, by_length({0: 1.0, 1: 0.5, 2: 0.9, 3: 0.8, 4: 0.7}))
    source = torch.tensor([[A, A, A, A], [A, A, PAD, PAD], [A, PAD, PAD, PAD]])
    found = search(model, source, LengthLimit(ratio=1.0, extra=0), Settings(4, candidates=3, nbest=3))
    assert found.lengths.tolist() == [[2, 3, 4], [2, 1, 0], [1, 0, 0]]
    assert found.ended.tolist() == [[True] * 3, [True, True, False], [True, False, False]]
    assert (found.scores == -torch.inf).tolist() == (~found.ended).tolist()


def test_more_candidates_than_lengths() -> None:
    model = Scripted([[0.0, 0.5, 0.5]], by_length({1: 0.5, 2: 0.5}))
    with pytest.raises(PipelineError, match="candidates: 4 must not exceed the 3 lengths that the model knows"):
        search(model, source_of(1), LIMIT, Settings(1, candidates=4))
    assert search(model, source_of(1), LIMIT, Settings(1, candidates=3)).lengths.tolist() == [[1]]


@pytest.mark.parametrize(("probabilities", "lengths", "ended"), [
    ([0.5, 0.3, 0.2], [0, 1], [True, True]),
    ([0.4, 0.6, 0.0], [1, 0], [True, False]),
    ([0.3, 0.2, 0.5], [2, 1], [True, True])])
def test_an_empty_target_is_most_probable_or_no_candidate(probabilities: list[float], lengths: list[int],
                                                          ended: list[bool]) -> None:
    model = Scripted([probabilities], by_length({1: 0.1, 2: 0.2}))
    found = search(model, source_of(1), LIMIT, Settings(1, candidates=2, nbest=2))
    assert found.lengths.tolist() == [lengths] and found.ended.tolist() == [ended]
    if lengths[0] == 0:
        assert found.scores[0, 0] == 0


def test_an_empty_target_takes_no_call() -> None:
    model = Scripted(only(0, 0), lambda call, row: torch.empty(0, 12))
    found = search(model, source_of(2), LIMIT, Settings(4, candidates=1))
    assert found.tokens.shape == (2, 1, 0) and found.calls.tolist() == [0, 0] and model.fed == []


@pytest.mark.parametrize("settings", [Settings(4, 1), Settings(10, 5, nbest=2)])
def test_no_sentences(settings: Settings) -> None:
    found = search(masked(), torch.empty(0, 3, dtype=torch.long), LIMIT, settings)
    assert found.tokens.shape[:2] == found.lengths.shape == found.scores.shape == found.ended.shape
    assert found.lengths.shape == (0, settings.nbest) and found.calls.shape == (0,)


# Real networks.

MIXED = sources(3, 11, 1, 6, 8, 2, 14)


def plainly(network: MaskedTransformer, source: Tensor, T: int, K: int) -> list[tuple[list[int], float]]:
    """The candidates of one sentence, best first, by the forward pass of training, one by one and without a cache."""
    lengths = network.lengths(network.encoded(source))[0].tolist()
    most = int(LIMIT.words(source))
    ranking = sorted(range(most + 1), key=lambda n: -lengths[n])
    candidates = [n for n in ranking if n > 0 or ranking[0] == 0][:K]
    found = []
    for n in candidates:
        tokens, certainty = [MASK] * n, [0.0] * n
        for t in range(T):
            again = sorted(range(n), key=certainty.__getitem__)[:n * (T - t) // T]
            for place in again:
                tokens[place] = MASK
            scores = network(source, torch.tensor([tokens], dtype=torch.long)).log_softmax(2)[0] if again else None
            for place in again:
                assert scores is not None
                tokens[place] = max((UNK, *range(7, 20)), key=lambda word, at=place: scores[at, word].item())
                certainty[place] = scores[place, tokens[place]].item()
        found.append((tokens, sum(certainty) / n if n else 0.0))
    return sorted(found, key=lambda one: -one[1])


@pytest.mark.parametrize(("iterations", "candidates"), [(1, 1), (4, 1), (4, 5), (10, 5)])
@pytest.mark.parametrize("seed", [2, 3])
def test_a_batch_is_what_the_paper_says_of_each_sentence(seed: int, iterations: int, candidates: int) -> None:
    network = masked(seed=seed)
    found = search(network, MIXED, LIMIT, Settings(iterations, candidates, nbest=candidates))
    assert len(set(found.lengths[:, 0].tolist())) > 2  # or this test would say little
    for row, source in enumerate(MIXED):
        expected = plainly(network, source[source != PAD].unsqueeze(0), iterations, candidates)
        assert words(found)[row][:len(expected)] == [tokens for tokens, _ in expected]
        assert found.scores[row, :len(expected)].tolist() == pytest.approx([score for _, score in expected], abs=1e-10)
        assert found.tokens[row, 0, found.lengths[row, 0]:].eq(PAD).all()


@pytest.mark.parametrize("settings", [Settings(4, 1), Settings(10, 5)])
def test_a_sentence_is_translated_the_same_in_any_batch(settings: Settings) -> None:
    network = masked()
    together = search(network, MIXED, LIMIT, settings)
    for row, source in enumerate(MIXED):
        alone = search(network, source[source != PAD].unsqueeze(0), LIMIT, settings)
        assert words(alone)[0] == words(together)[row]
        assert alone.calls.item() == together.calls[row].item()
        torch.testing.assert_close(alone.scores[0], together.scores[row], rtol=0, atol=1e-10)


def test_single_precision_finds_the_same() -> None:
    double, single = (search(masked(dtype=dtype), MIXED, LIMIT, Settings(4, 5))
                      for dtype in (torch.float64, torch.float32))
    assert words(single) == words(double)
    assert single.scores.dtype == torch.float32
    torch.testing.assert_close(single.scores.double(), double.scores, rtol=0, atol=1e-4)


# Settings.

@pytest.mark.parametrize(("settings", "message"), [
    ({"iterations": 0}, "iterations: 0 must be at least 1"),
    ({"candidates": 0}, "candidates: 0 must be at least 1"),
    ({"candidates": 2, "nbest": 3}, "nbest: 3 must not exceed the candidates, 2")])
def test_impossible_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Settings(**settings)


def test_an_entry_of_params(tiny: Callable[..., Transformer]) -> None:
    decode = make_decoder("mine", {"algorithm": "mask_predict", "iterations": 4, "candidates": 2}, LIMIT)
    network = masked()
    assert torch.equal(decode(network, MIXED).tokens, search(network, MIXED, LIMIT, Settings(4, 2)).tokens)
    with pytest.raises(PipelineError, match=r"decoders.mine: mask_predict searches masked models.* is ordered"):
        decode(tiny(), MIXED)
    for block in ({"algorithm": "greedy"}, {"algorithm": "beam", "beams": 2}, {"algorithm": "pair_beam", "beams": 2}):
        with pytest.raises(PipelineError, match="searches ordered models, and this one is masked; choose another"):
            make_decoder("mine", block, LIMIT)(network, MIXED)
