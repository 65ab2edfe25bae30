"""A wide beam finds exactly what enumerating all hypotheses finds, at sizes where that can be done."""

from itertools import product

import pytest
import torch
from scripted import FOUR, TWO, Row, Scripted, random_script

from pipeline.decoding import beam, greedy
from pipeline.decoding.beam import LengthPenalty
from pipeline.decoding.limits import LengthLimit
from pipeline.model.orders import ORDERS, Order
from pipeline.vocabulary import EOS

VOCABULARY = 160
SOURCE = torch.tensor([[10, EOS]])


def enumerate_hypotheses(model: Scripted, source: Row, steps: int, penalty: LengthPenalty,
                         prefix: Row = (), score: float = 0.0) -> list[tuple[float, Row, bool]]:
    """(penalised score, slots, ended) of everything that can be generated in so many steps."""
    z = model.order.width
    rows = model.script(source, prefix).log_softmax(1)
    words = [word for word in rows[0].isfinite().nonzero().squeeze(1).tolist() if word != EOS]
    found = []
    for kept in range(z + 1):
        for step in product(words, repeat=kept):
            slots = (*prefix, *step, *[EOS] * (z - kept))
            total = score + sum(rows[slot, word].item() for slot, word in enumerate(slots[len(prefix):]))
            if kept < z or steps == 1:
                found.append((total / float(penalty(len(slots))), slots, kept < z))
            else:
                found += enumerate_hypotheses(model, source, steps - 1, penalty, slots, total)
    return found


@pytest.mark.parametrize("penalty", [
    LengthPenalty("average", 1.0), LengthPenalty("average", 0.0), LengthPenalty("gnmt", 0.6)])
@pytest.mark.parametrize(("order", "words", "limit"), [
    (ORDERS["left_to_right"], 3, 3),
    (ORDERS["right_to_left"], 2, 3),
    (ORDERS["interleaved"], 3, 3),
    (TWO, 3, 2),
    (FOUR, 3, 3),
], ids=["left_to_right", "right_to_left", "interleaved", "two", "four"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_wide_beam_equals_enumeration(order: Order, words: int, limit: int, penalty: LengthPenalty, seed: int) -> None:
    model = Scripted(order, random_script(order.width, words, seed, VOCABULARY))
    steps = limit // order.width + 1
    everything = sorted(enumerate_hypotheses(model, (10, EOS), steps, penalty), reverse=True)
    K = min(len(everything), 121)
    assert len(everything) > 14 and K < VOCABULARY

    nbest = min(K, 20)
    found = beam.search(model, SOURCE, LengthLimit(0.0, limit), beam.Settings(K, penalty, nbest))
    for rank, (score, slots, ended) in enumerate(everything[:nbest]):
        expected, lengths = order.restore(torch.tensor([slots]))
        assert found.scores[0, rank].item() == pytest.approx(score, abs=1e-12)
        assert found.tokens[0, rank, :found.lengths[0, rank]].tolist() == expected[0, :lengths[0]].tolist()
        assert found.ended[0, rank].item() is ended


@pytest.mark.parametrize("order", [ORDERS["interleaved"], FOUR], ids=["interleaved", "four"])
@pytest.mark.parametrize("seed", range(12))
def test_each_greedy_step_is_the_best_of_all_possible_ones(order: Order, seed: int) -> None:
    model, z = Scripted(order, random_script(order.width, 3, seed, 16)), order.width
    found = greedy.search(model, SOURCE, LengthLimit(0.0, 8))
    prefix: Row = ()
    total = 0.0
    for call in range(int(found.calls[0])):
        score, slots, ended = max(enumerate_hypotheses(model, (10, EOS), 1, LengthPenalty(alpha=0.0), prefix))
        assert ended is (bool(found.ended[0, 0]) and call == int(found.calls[0]) - 1)
        prefix, total = slots, total + score
    expected, lengths = order.restore(torch.tensor([prefix]))
    assert found.tokens[0, 0].tolist() == expected[0].tolist()
    assert found.scores[0, 0].item() == pytest.approx(total, abs=1e-9)
    assert len(prefix) == z * int(found.calls[0]) and found.lengths.tolist() == [lengths.tolist()]
