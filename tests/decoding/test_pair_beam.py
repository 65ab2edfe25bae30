"""The beam search with pairs by hand, on models that are written down."""

import pytest
import torch
from orders import EVERY_ORDER
from scripted import Row, Script, Scripted, logits
from torch import Tensor

from pipeline.decoding import beam, pair_beam
from pipeline.decoding.beams import LengthPenalty
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.vocabulary import EOD, EOS

A, B, C, D = 7, 8, 9, 10
SOURCE = torch.tensor([[A, B, EOS]])
LIMIT = LengthLimit(0.0, 8)
BY_SCORE = LengthPenalty(alpha=0.0)
END = ({EOD: 30.0}, {EOD: 30.0})


def search(script: Script, settings: pair_beam.Settings, order: str = "double_token") -> Hypotheses:
    return pair_beam.search(Scripted(EVERY_ORDER[order], script), SOURCE, LIMIT, settings)


def texts(found: Hypotheses) -> list[list[int]]:
    return [row[:length] for row, length in zip(found.tokens[0].tolist(), found.lengths[0].tolist(), strict=True)]


def test_left_words_are_chosen_before_the_right_ones_are_seen() -> None:
    """B is followed by a certain pair, A by many likely left words that take all four places; then by no right one."""
    def script(source: Row, prefix: Row) -> Tensor:
        if not prefix:
            return logits({A: 2.0, B: 0.0}, {C: 20.0})
        if len(prefix) == 4:
            return logits(*END)
        if prefix[0] == A:
            return logits(dict.fromkeys((A, B, C, D), 1.0), dict.fromkeys((0, 1, 2, 3, 4, A, B, C, D), 1.0))
        return logits({D: 20.0}, {D: 20.0})

    by_pairs = search(script, pair_beam.Settings(2, length_penalty=BY_SCORE))
    model = Scripted(EVERY_ORDER["double_token"], script)
    jointly = beam.search(model, SOURCE, LIMIT, beam.Settings(2, BY_SCORE))
    assert texts(jointly) == [[B, D, D, C]]
    assert texts(by_pairs)[0][0] == A
    assert by_pairs.scores.item() < jointly.scores.item()
    # With twice the beam there is a place for the left word after B.
    assert texts(search(script, pair_beam.Settings(4, length_penalty=BY_SCORE))) == [[B, D, D, C]]


def test_a_sentence_is_done_when_k_hypotheses_are() -> None:
    """A alone is a finished hypothesis at once; A and B is a better one, a step later."""
    def script(source: Row, prefix: Row) -> Tensor:
        return logits(*END) if prefix else logits({A: 1.0}, {EOD: 1.0, B: 0.9})

    first = search(script, pair_beam.Settings(3, hypotheses=1))
    assert texts(first) == [[A]] and first.calls.tolist() == [1]
    more = search(script, pair_beam.Settings(3))
    assert texts(more) == [[A, B]] and more.calls.tolist() == [2]
    both = search(script, pair_beam.Settings(1, hypotheses=2, nbest=2))
    assert texts(both) == [[A, B], [A]] and both.calls.tolist() == [2]


@pytest.mark.parametrize(("left", "right", "expected"), [
    ({EOD: 9.0}, {EOD: 9.0}, [A, B]), ({C: 9.0}, {EOD: 9.0}, [A, C, B]),
    ({EOD: 9.0, C: 0.0}, {D: 1.0, EOD: 0.0}, [A, B]), ({EOD: 1.0, C: 0.5}, {D: 9.0}, [A, C, D, B])])
def test_either_side_ends(left: dict[int, float], right: dict[int, float], expected: list[int]) -> None:
    """And a word on the right is never taken where the left side ends."""
    def script(source: Row, prefix: Row) -> Tensor:
        return [logits({A: 9.0}, {B: 9.0}), logits(left, right), logits(*END)][len(prefix) // 2]

    for beams in (1, 3):
        found = search(script, pair_beam.Settings(beams, length_penalty=BY_SCORE))
        assert texts(found) == [expected] and found.ended.all()


def test_beams_are_free_where_nothing_else_is_possible() -> None:
    def script(source: Row, prefix: Row) -> Tensor:
        rows = torch.full((2, 12), -torch.inf, dtype=torch.float64)
        rows[0, A if not prefix else EOD] = rows[1, B if not prefix else EOD] = 0.0
        return rows

    found = search(script, pair_beam.Settings(3, nbest=3))
    assert texts(found)[0] == [A, B]
    assert found.scores.tolist() == [[0.0, -torch.inf, -torch.inf]]
    assert found.ended.tolist() == [[True, False, False]]


@pytest.mark.parametrize(("order", "name", "slots"), [
    ("left_to_right", "left_to_right", 1), ("right_to_left3", "right_to_left", 3),
    ("interleaved_sa2", "interleaved", 4)])
def test_orders_without_pairs(order: str, name: str, slots: int) -> None:
    decoder = make_decoder("pairs", {"algorithm": "pair_beam", "beams": 2}, LIMIT)
    with pytest.raises(PipelineError, match=f"decoders.pairs: pair_beam searches orders of 2 slots per step, and this "
                                            f"model's, {name}, has {slots}; choose another decoder"):
        decoder.check(Scripted(EVERY_ORDER[order], lambda source, prefix: logits()))
