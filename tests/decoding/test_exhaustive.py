"""A wide beam finds exactly what enumerating all hypotheses finds, at sizes where that can be done."""

from itertools import product

import pytest
import torch
from orders import EVERY_ORDER
from scripted import Row, Scripted, random_script

from pipeline.decoding import beam, greedy, pair_beam
from pipeline.decoding.beam import LengthPenalty
from pipeline.decoding.limits import LengthLimit
from pipeline.vocabulary import EOS

VOCABULARY = 160
SOURCE = torch.tensor([[10, EOS]])
PENALTIES = [LengthPenalty("average", 1.0), LengthPenalty("average", 0.0), LengthPenalty("gnmt", 0.6)]
BEST = 20

SIZES = {1: [(4, 4)], 2: [(4, 2)], 3: [(2, 2)], 4: [(4, 1), (2, 2)], 6: [(2, 1), (1, 3)], 8: [(2, 1), (1, 2)]}
"""By step width, the number of words in the vocabulary without the end symbol, and the number of steps."""


def enumerate_hypotheses(model: Scripted, source: Row, steps: int, prefix: Row = (),
                         score: float = 0.0) -> list[tuple[float, Row, bool]]:
    """(score, slots, ended) of everything that can be generated in a number of steps."""
    z, end = model.order.width, model.order.end
    rows = model.script(source, prefix).log_softmax(1)
    words = [word for word in rows[0].isfinite().nonzero().squeeze(1).tolist() if word != end]
    table, found = rows.tolist(), []
    for kept in range(z + 1):
        for step in product(words, repeat=kept):
            slots = (*prefix, *step, *[end] * (z - kept))
            total = score + sum(table[slot][word] for slot, word in enumerate(slots[len(prefix):]))
            if kept < z or steps == 1:
                found.append((total, slots, kept < z))
            else:
                found += enumerate_hypotheses(model, source, steps - 1, slots, total)
    return found


@pytest.mark.parametrize(("algorithm", "label"), [
    *(("beam", label) for label in EVERY_ORDER),
    *(("pair_beam", label) for label, order in EVERY_ORDER.items() if order.width == 2)])
def test_wide_beam_equals_enumeration(algorithm: str, label: str) -> None:
    order = EVERY_ORDER[label]
    for (live, steps), seed in product(SIZES[order.width], (1, 2)):
        limit, K = LengthLimit(0.0, order.width * steps - 1), {1: 121, 2: 121, 3: 121, 4: 40}.get(order.width, BEST)
        model = Scripted(order, random_script(order, live, seed, VOCABULARY))
        everything = enumerate_hypotheses(model, (10, EOS), steps)
        assert len(everything) == sum(live**slots for slots in range(order.width * steps + 1))
        for penalty in PENALTIES:
            ranked = sorted(((score / penalty(len(slots)), slots, ended) for score, slots, ended in everything),
                            reverse=True)[:BEST]
            if algorithm == "beam":
                found = beam.search(model, SOURCE, limit, beam.Settings(K, penalty, BEST))
            else:
                found = pair_beam.search(model, SOURCE, limit, pair_beam.Settings(K, None, penalty, BEST))
            assert int((found.scores > -torch.inf).sum()) == len(ranked)
            for rank, (score, slots, ended) in enumerate(ranked):
                expected, lengths = order.restore(torch.tensor([slots]))
                assert found.scores[0, rank].item() == pytest.approx(score, abs=1e-12)
                assert found.tokens[0, rank, :found.lengths[0, rank]].tolist() == expected[0, :lengths[0]].tolist()
                assert found.ended[0, rank].item() is ended


@pytest.mark.parametrize("label", EVERY_ORDER)
def test_each_greedy_step_is_the_best_of_all_possible_ones(label: str) -> None:
    order = EVERY_ORDER[label]
    for seed in range(8):
        model, z = Scripted(order, random_script(order, 3 if order.width < 6 else 2, seed, 16)), order.width
        found = greedy.search(model, SOURCE, LengthLimit(0.0, 8))
        prefix: Row = ()
        total = 0.0
        for call in range(int(found.calls[0])):
            score, slots, ended = max(enumerate_hypotheses(model, (10, EOS), 1, prefix))
            assert ended is (bool(found.ended[0, 0]) and call == int(found.calls[0]) - 1)
            prefix, total = slots, total + score
        expected, lengths = order.restore(torch.tensor([prefix]))
        assert found.tokens[0, 0].tolist() == expected[0].tolist()
        assert found.scores[0, 0].item() == pytest.approx(total, abs=1e-9)
        assert len(prefix) == z * int(found.calls[0]) and found.lengths.tolist() == [lengths.tolist()]
