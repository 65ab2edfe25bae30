"""Edges of greedy and both beam searches on models that are written down."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from orders import EVERY_ORDER
from scripted import Row, Script, Scripted, logits
from torch import Tensor

from pipeline.decoding import beam, greedy, pair_beam
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.vocabulary import EOD, EOS, PAD

pytestmark = pytest.mark.usefixtures("engine")

A, B, C = 7, 8, 9
Decoder = Callable[[Scripted, Tensor, LengthLimit], Hypotheses]
LIMIT = LengthLimit(ratio=1.0, extra=2)
UNPENALISED = beam.LengthPenalty(alpha=0.0)
SOURCE = torch.tensor([[A, B, EOS], [A, EOS, PAD]])  # limits of five and of four words

DECODERS: dict[str, Decoder] = {"greedy": greedy.search} | {
    f"beam{k}": lambda model, source, limit, k=k: beam.search(model, source, limit, beam.Settings(k, UNPENALISED))
    for k in (1, 3)}
PAIR_DECODERS: dict[str, Decoder] = {
    f"pair_beam{k}": lambda model, source, limit, k=k: pair_beam.search(
        model, source, limit, pair_beam.Settings(k, length_penalty=UNPENALISED))
    for k in (1, 3)}
ALL_DECODERS = DECODERS | PAIR_DECODERS
every_decoder = pytest.mark.parametrize(("decoder", "order"), [
    *((decoder, order) for decoder in DECODERS for order in EVERY_ORDER),
    *((decoder, order) for decoder in PAIR_DECODERS for order in EVERY_ORDER if EVERY_ORDER[order].width == 2)])


def decode(decoder: str, order: str, script: Script, source: Tensor = SOURCE,
           limit: LengthLimit = LIMIT) -> tuple[Hypotheses, Scripted]:
    model = Scripted(EVERY_ORDER[order], script)
    return ALL_DECODERS[decoder](model, source, limit), model


@every_decoder
def test_ends_at_the_first_step(decoder: str, order: str) -> None:
    z, end = EVERY_ORDER[order].width, EVERY_ORDER[order].end
    found, model = decode(decoder, order, lambda source, prefix: logits(*[{end: 5.0}] * z))
    assert found.tokens.shape == (2, 1, 0)
    assert found.lengths.tolist() == [[0], [0]]
    assert found.ended.all()
    assert found.calls.tolist() == [1, 1]
    assert len(model.fed) == 1


@every_decoder
def test_never_ends(decoder: str, order: str) -> None:
    z, end = EVERY_ORDER[order].width, EVERY_ORDER[order].end

    def script(source: Row, prefix: Row) -> Tensor:
        rows = logits(*[{A: 3.0, B: 0.0, C: -1.0}] * z)
        rows[:, end] = -torch.inf
        return rows

    found, model = decode(decoder, order, script)
    steps = LIMIT.steps(SOURCE, EVERY_ORDER[order])
    assert not found.ended.any()
    assert found.calls.tolist() == steps.tolist()
    assert found.lengths[:, 0].tolist() == (steps * z).tolist()
    assert len(model.fed) == int(steps.max())  # each step one call for all sentences
    assert all(set(row[:length]) == {A} for row, length in
               zip(found.tokens[:, 0].tolist(), found.lengths[:, 0].tolist(), strict=True))


@every_decoder
def test_sentences_end_at_steps_of_their_own_and_leave(decoder: str, order: str) -> None:
    z, end = EVERY_ORDER[order].width, EVERY_ORDER[order].end

    def script(source: Row, prefix: Row) -> Tensor:
        word = end if len(prefix) // z == len(source) - 2 else A  # a sentence of n pieces ends in step n - 2
        return logits(*[{word: 9.0, B: 0.0}] * z)

    source = torch.tensor([[A, EOS, PAD, PAD], [A, A, A, EOS], [A, A, EOS, PAD]])
    found, model = decode(decoder, order, script, source, LengthLimit(0.0, 4 * z))
    assert found.calls.tolist() == [1, 3, 2]
    assert found.lengths[:, 0].tolist() == [0, 2 * z, z]
    if decoder in ("greedy", "beam1", "pair_beam1"):
        assert model.fed == [3, 2, 1]


def test_a_word_after_an_end_is_never_proposed() -> None:
    """Slot by slot, the end and then B are best; of the steps that the order allows, A and then the end is."""
    def script(source: Row, prefix: Row) -> Tensor:
        if prefix:
            return logits({EOS: 9.0}, {EOS: 9.0})
        return logits({EOS: 1.0, A: 0.9}, {B: 1.0, EOS: 0.8, C: -5.0})

    for decoder in ALL_DECODERS:
        found, _ = decode(decoder, "interleaved", script, SOURCE[:1])
        first, second = script((), ()).log_softmax(1)
        ways = {(): first[EOS] + second[EOS], (A,): first[A] + second[EOS], (A, B): first[A] + second[B]}
        expected = max(ways, key=lambda way: ways[way].item())
        assert expected == (A, B)  # the best of them does not even end
        assert tuple(found.tokens[0, 0, :found.lengths[0, 0]].tolist()) == expected
        assert found.ended.all()


@pytest.mark.parametrize(("end_first", "end_second", "expected"), [
    (3.0, 0.5, ()), (0.2, 0.6, ()), (0.1, 0.5, (A, B)), (0.4, -2.0, (A, B))])
def test_a_torn_step_becomes_the_best_whole_one(end_first: float, end_second: float, expected: Row) -> None:
    def script(source: Row, prefix: Row) -> Tensor:
        if prefix:
            return logits({EOS: 9.0}, {EOS: 9.0})
        return logits({EOS: end_first, A: 0.0}, {EOS: end_second, B: 0.7})

    first, second = script((), ()).log_softmax(1)
    ways = {(): first[EOS] + second[EOS], (A,): first[A] + second[EOS], (A, B): first[A] + second[B]}
    assert max(ways, key=lambda way: ways[way].item()) == expected
    for decoder in ALL_DECODERS:
        found, _ = decode(decoder, "interleaved", script, SOURCE[:1])
        assert tuple(found.tokens[0, 0, :found.lengths[0, 0]].tolist()) == expected


def test_greedy_takes_the_lowest_of_equal_words() -> None:
    def script(source: Row, prefix: Row) -> Tensor:
        return logits({B: 1.0, A: 1.0, C: 1.0} if len(prefix) < 2 else {EOS: 1.0})

    found, _ = decode("greedy", "left_to_right", script)
    assert found.tokens.tolist() == [[[A, A]], [[A, A]]]


def test_a_beam_finds_what_greedy_misses() -> None:
    """A looks better at first, but what follows B is certain."""
    def script(source: Row, prefix: Row) -> Tensor:
        if not prefix:
            return logits({A: 1.0, B: 0.8})
        if prefix == (B,):
            return logits({EOS: 20.0})
        return logits({A: 0.0, B: 0.0, C: 0.0, EOS: 0.0})

    assert decode("beam3", "left_to_right", script)[0].tokens[0, 0].tolist() == [B]
    assert decode("greedy", "left_to_right", script)[0].tokens[0, 0, 0].item() == A


@pytest.mark.parametrize("algorithm", [beam, pair_beam])
def test_a_beam_as_wide_as_the_vocabulary(algorithm: ModuleType) -> None:
    model = Scripted(EVERY_ORDER["double_token"], lambda source, prefix: logits({EOD: 0.0}, {EOD: 0.0}))
    with pytest.raises(PipelineError, match="beam: 12 must be smaller than the vocabulary, 12"):
        algorithm.search(model, SOURCE, LIMIT, algorithm.Settings(12))
    assert algorithm.search(model, SOURCE, LIMIT, algorithm.Settings(11)).ended.all()


@every_decoder
def test_no_sentences(decoder: str, order: str) -> None:
    class Silent(Scripted):
        def step(self, tokens: Tensor, state: object) -> Tensor:
            raise AssertionError("there is nothing to decode")

    model = Silent(EVERY_ORDER[order], lambda source, prefix: logits())
    found = ALL_DECODERS[decoder](model, torch.empty(0, 3, dtype=torch.long), LIMIT)
    assert found.tokens.shape[:2] == (0, 1)
    assert found.lengths.shape == found.scores.shape == found.ended.shape == (0, 1)
    assert found.calls.shape == (0,)


def test_missing_hypotheses_have_no_score() -> None:
    """Two words and an end, of which only the end is possible: there is one hypothesis and no second."""
    def script(source: Row, prefix: Row) -> Tensor:
        rows = torch.full((1, 12), -torch.inf, dtype=torch.float64)
        rows[0, EOS] = 0.0
        return rows

    model = Scripted(EVERY_ORDER["left_to_right"], script)
    found = beam.search(model, SOURCE, LIMIT, beam.Settings(3, nbest=3))
    assert found.scores.tolist() == [[0.0, -torch.inf, -torch.inf]] * 2
    assert found.lengths[:, 0].tolist() == [0, 0]
    assert found.ended[:, 0].all()
