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
EVERYTHING = 1 + 4 + 4**2 + 4**3 + 4**4
"""Hypotheses of up to four words out of four, and their ends: the vocabulary has five symbols that are possible."""

every_penalty = pytest.mark.parametrize("penalty", [
    LengthPenalty("average", 1.0), LengthPenalty("average", 0.0), LengthPenalty("gnmt", 0.6)], ids=str)


def enumerate_hypotheses(model: Scripted, source: Row, steps: int, penalty: LengthPenalty,
                         prefix: Row = (), score: float = 0.0) -> list[tuple[float, Row, bool]]:
    """(penalised score, slots, ended) of everything that can be generated in so many steps."""
    z, end = model.order.width, model.order.end
    rows = model.script(source, prefix).log_softmax(1)
    words = [word for word in rows[0].isfinite().nonzero().squeeze(1).tolist() if word != end]
    table, found = rows.tolist(), []
    for kept in range(z + 1):
        for step in product(words, repeat=kept):
            slots = (*prefix, *step, *[end] * (z - kept))
            total = score + sum(table[slot][word] for slot, word in enumerate(slots[len(prefix):]))
            if kept < z or steps == 1:
                found.append((total / penalty(len(slots)), slots, kept < z))
            else:
                found += enumerate_hypotheses(model, source, steps - 1, penalty, slots, total)
    return found


@every_penalty
@pytest.mark.parametrize(("algorithm", "label"), [
    *(("beam", label) for label in (
        "left_to_right", "right_to_left", "interleaved", "double_token", "semi_autoregressive2", "middle_to_side",
        "semi_autoregressive4", "interleaved_sa2", "multi_directional4")),
    *(("pair_beam", label) for label in ("interleaved", "double_token", "double_token_r2l", "semi_autoregressive2"))])
def test_wide_beam_equals_enumeration(algorithm: str, label: str, penalty: LengthPenalty) -> None:
    order = EVERY_ORDER[label]
    limit, K, nbest = LengthLimit(0.0, 3), 121 if order.width < 4 else 40, 20
    for seed in (1, 2):
        model = Scripted(order, random_script(order, 4, seed, VOCABULARY))
        everything = sorted(enumerate_hypotheses(model, (10, EOS), 4 // order.width, penalty), reverse=True)
        assert len(everything) == EVERYTHING
        if algorithm == "beam":
            found = beam.search(model, SOURCE, limit, beam.Settings(K, penalty, nbest))
        else:
            found = pair_beam.search(model, SOURCE, limit, pair_beam.Settings(K, None, penalty, nbest))
        for rank, (score, slots, ended) in enumerate(everything[:nbest]):
            expected, lengths = order.restore(torch.tensor([slots]))
            assert found.scores[0, rank].item() == pytest.approx(score, abs=1e-12)
            assert found.tokens[0, rank, :found.lengths[0, rank]].tolist() == expected[0, :lengths[0]].tolist()
            assert found.ended[0, rank].item() is ended


@pytest.mark.parametrize("label", ["interleaved", "double_token", "semi_autoregressive4", "multi_directional4"])
@pytest.mark.parametrize("seed", range(8))
def test_each_greedy_step_is_the_best_of_all_possible_ones(label: str, seed: int) -> None:
    order = EVERY_ORDER[label]
    model, z = Scripted(order, random_script(order, 3, seed, 16)), order.width
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
