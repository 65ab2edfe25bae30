"""Edges of greedy and beam search on models that are written down."""

import pytest
import torch
from scripted import Row, Script, Scripted, logits
from torch import Tensor

from pipeline.decoding import beam, greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.model.orders import ORDERS, Order
from pipeline.vocabulary import EOS, PAD

A, B, C = 7, 8, 9
LIMIT = LengthLimit(ratio=1.0, extra=2)
UNPENALISED = beam.LengthPenalty(alpha=0.0)
SOURCE = torch.tensor([[A, B, EOS], [A, EOS, PAD]])  # limits of five and of four words

DECODERS = {"greedy": lambda model, source: greedy.search(model, source, LIMIT)} | {
    f"beam{k}": lambda model, source, k=k: beam.search(model, source, LIMIT, beam.Settings(k, UNPENALISED))
    for k in (1, 3)}
every_decoder = pytest.mark.parametrize("decoder", DECODERS)
every_order = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)


def decode(decoder: str, order: Order, script: Script, source: Tensor = SOURCE) -> tuple[Hypotheses, Scripted]:
    model = Scripted(order, script)
    return DECODERS[decoder](model, source), model


@every_decoder
@every_order
def test_ends_at_the_first_step(decoder: str, order: Order) -> None:
    found, model = decode(decoder, order, lambda source, prefix: logits(*[{EOS: 5.0}] * order.width))
    assert found.tokens.shape == (2, 1, 0)
    assert found.lengths.tolist() == [[0], [0]]
    assert found.ended.all()
    assert found.calls.tolist() == [1, 1]
    assert len(model.fed) == 1


@every_decoder
@every_order
def test_never_ends(decoder: str, order: Order) -> None:
    def script(source: Row, prefix: Row) -> Tensor:
        rows = logits(*[{A: 3.0, B: 0.0, C: -1.0}] * order.width)
        rows[:, EOS] = -torch.inf
        return rows

    found, model = decode(decoder, order, script)
    steps = LIMIT.steps(SOURCE, order)
    assert not found.ended.any()
    assert found.calls.tolist() == steps.tolist()
    assert found.lengths[:, 0].tolist() == (steps * order.width).tolist()
    assert len(model.fed) == int(steps.max())  # each step one call for all sentences
    assert all(set(row[:length]) == {A} for row, length in
               zip(found.tokens[:, 0].tolist(), found.lengths[:, 0].tolist(), strict=True))


@every_decoder
@every_order
def test_sentences_end_at_steps_of_their_own_and_leave(decoder: str, order: Order) -> None:
    z = order.width

    def script(source: Row, prefix: Row) -> Tensor:
        word = EOS if len(prefix) // z == len(source) - 2 else A  # a sentence of n pieces ends in step n - 2
        return logits(*[{word: 9.0, B: 0.0}] * z)

    source = torch.tensor([[A, EOS, PAD, PAD], [A, A, A, EOS], [A, A, EOS, PAD]])
    found, model = decode(decoder, order, script, source)
    assert found.calls.tolist() == [1, 3, 2]
    assert found.lengths[:, 0].tolist() == [0, 2 * z, z]
    beams = 1 if decoder == "greedy" else int(decoder[4:])
    if beams == 1:
        assert model.fed == [3, 2, 1]


def test_a_word_behind_an_end_is_never_proposed() -> None:
    """Slot by slot, the end and then B are best; of the steps that the order allows, A and then the end is."""
    def script(source: Row, prefix: Row) -> Tensor:
        if prefix:
            return logits({EOS: 9.0}, {EOS: 9.0})
        return logits({EOS: 1.0, A: 0.9}, {B: 1.0, EOS: 0.8, C: -5.0})

    order = ORDERS["interleaved"]
    for decoder in DECODERS:
        found, _ = decode(decoder, order, script, SOURCE[:1])
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
    for decoder in DECODERS:
        found, _ = decode(decoder, ORDERS["interleaved"], script, SOURCE[:1])
        assert tuple(found.tokens[0, 0, :found.lengths[0, 0]].tolist()) == expected


def test_greedy_takes_the_lowest_of_equal_words() -> None:
    def script(source: Row, prefix: Row) -> Tensor:
        return logits({B: 1.0, A: 1.0, C: 1.0} if len(prefix) < 2 else {EOS: 1.0})

    found, _ = decode("greedy", ORDERS["left_to_right"], script)
    assert found.tokens.tolist() == [[[A, A]], [[A, A]]]


def test_a_beam_finds_what_greedy_misses() -> None:
    """A looks better at first, but what follows B is certain."""
    def script(source: Row, prefix: Row) -> Tensor:
        if not prefix:
            return logits({A: 1.0, B: 0.8})
        if prefix == (B,):
            return logits({EOS: 20.0})
        return logits({A: 0.0, B: 0.0, C: 0.0, EOS: 0.0})

    order = ORDERS["left_to_right"]
    assert decode("beam3", order, script)[0].tokens[0, 0].tolist() == [B]
    assert decode("greedy", order, script)[0].tokens[0, 0, 0].item() == A


def test_a_beam_as_wide_as_the_vocabulary() -> None:
    model = Scripted(ORDERS["left_to_right"], lambda source, prefix: logits({EOS: 0.0}))
    with pytest.raises(PipelineError, match="beam: 12 must be smaller than the vocabulary, 12"):
        beam.search(model, SOURCE, LIMIT, beam.Settings(12))
    assert beam.search(model, SOURCE, LIMIT, beam.Settings(11)).ended.all()


@every_decoder
@every_order
def test_no_sentences(decoder: str, order: Order) -> None:
    class Silent(Scripted):
        def step(self, tokens: Tensor, state: object) -> Tensor:
            raise AssertionError("there is nothing to decode")

    found = DECODERS[decoder](Silent(order, lambda source, prefix: logits()), torch.empty(0, 3, dtype=torch.long))
    assert found.tokens.shape[:2] == (0, 1)
    assert found.lengths.shape == found.scores.shape == found.ended.shape == (0, 1)
    assert found.calls.shape == (0,)


def test_missing_hypotheses_have_no_score() -> None:
    """Two words and an end, of which only the end is possible: there is one hypothesis and no second."""
    def script(source: Row, prefix: Row) -> Tensor:
        rows = torch.full((1, 12), -torch.inf, dtype=torch.float64)
        rows[0, EOS] = 0.0
        return rows

    model = Scripted(ORDERS["left_to_right"], script)
    found = beam.search(model, SOURCE, LIMIT, beam.Settings(3, nbest=3))
    assert found.scores.tolist() == [[0.0, -torch.inf, -torch.inf]] * 2
    assert found.lengths[:, 0].tolist() == [0, 0]
    assert found.ended[:, 0].all()
