"""Greedy and both beam searches on real networks: equal where they must be, in any batch, with scores to check."""

from collections.abc import Callable

import pytest
import torch
from orders import EVERY_ORDER
from sentences import words
from torch import Tensor

from pipeline.decoding import beam, greedy, pair_beam
from pipeline.decoding.beam import LengthPenalty
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

pytestmark = pytest.mark.usefixtures("engine")

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.5, extra=4)
FEW = ("left_to_right", "semi_autoregressive4", "interleaved", "double_token", "multi_directional4_sa2",
       "independent_directions")
PAIRS = ("interleaved", "double_token", "double_token_l2r", "double_token_r2l", "semi_autoregressive2")
every_order = pytest.mark.parametrize("order", EVERY_ORDER)
few_orders = pytest.mark.parametrize("order", FEW)
orders_of_pairs = pytest.mark.parametrize("order", PAIRS)


def make_sources(count: int = 24) -> Tensor:
    generator = torch.Generator().manual_seed(17)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    batch = torch.full((count, max(lengths)), PAD)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = torch.randint(7, 20, (length,), generator=generator)
        row[length - 1] = EOS
    return batch


SOURCES = make_sources()


@every_order
def test_the_models_of_these_tests_end_and_do_not_end(tiny: Tiny, order: str) -> None:
    """Otherwise the tests below would say little."""
    found = greedy.search(tiny(order), SOURCES, LIMIT)
    assert 6 <= int(found.ended.sum()) < len(SOURCES)
    assert len(set(found.calls.tolist())) > 1


@every_order
@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_one_beam_is_greedy(tiny: Tiny, order: str, seed: int) -> None:
    network = tiny(order, seed=seed)
    one = greedy.search(network, SOURCES, LIMIT)
    other = beam.search(network, SOURCES, LIMIT, beam.Settings(1, LengthPenalty(alpha=0.0)))
    assert words(one) == words(other)
    assert torch.equal(one.calls, other.calls) and torch.equal(one.ended, other.ended)
    torch.testing.assert_close(one.scores, other.scores, rtol=0, atol=1e-10)


@orders_of_pairs
@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_one_beam_of_pairs_is_greedy(tiny: Tiny, order: str, seed: int) -> None:
    network = tiny(order, seed=seed)
    one = greedy.search(network, SOURCES, LIMIT)
    other = pair_beam.search(network, SOURCES, LIMIT, pair_beam.Settings(1, length_penalty=LengthPenalty(alpha=0.0)))
    assert words(one) == words(other)
    assert torch.equal(one.calls, other.calls) and torch.equal(one.ended, other.ended)
    torch.testing.assert_close(one.scores, other.scores, rtol=0, atol=1e-10)


def run(network: Transformer, source: Tensor, algorithm: str, beams: int, penalty: LengthPenalty,
        nbest: int) -> Hypotheses:
    if algorithm == "greedy":
        return greedy.search(network, source, LIMIT)
    if algorithm == "beam":
        return beam.search(network, source, LIMIT, beam.Settings(beams, penalty, nbest))
    return pair_beam.search(network, source, LIMIT, pair_beam.Settings(beams, None, penalty, nbest))


@pytest.mark.parametrize(("algorithm", "beams", "order"), [
    *(("greedy", 1, order) for order in EVERY_ORDER), *(("beam", 4, order) for order in EVERY_ORDER),
    *(("beam", 1, order) for order in FEW), *(("pair_beam", 4, order) for order in PAIRS)])
def test_a_sentence_is_translated_the_same_in_any_batch(tiny: Tiny, algorithm: str, beams: int, order: str) -> None:
    network = tiny(order)

    def decode(source: Tensor) -> Hypotheses:
        return run(network, source, algorithm, beams, LengthPenalty(), beams)

    together = decode(SOURCES)
    backwards = decode(SOURCES.flip(0))
    assert words(backwards) == words(together)[::-1]
    assert torch.equal(backwards.calls.flip(0), together.calls)
    for row, source in enumerate(SOURCES):
        alone = decode(source[source != PAD].unsqueeze(0))
        assert words(alone)[0] == words(together)[row]
        assert alone.calls.item() == together.calls[row].item()
        torch.testing.assert_close(alone.scores[0], together.scores[row], rtol=0, atol=1e-10)


def teacher_forced(network: Transformer, source: Tensor, target: list[int], ended: bool) -> tuple[float, int]:
    """Log-probability of a hypothesis by the forward pass of training, and its slots."""
    order = network.order
    arranged = order.arrange(torch.tensor([target], dtype=torch.long), torch.tensor([len(target)]))
    if not ended:
        arranged = arranged[:, :len(target)]  # it was cut before it could end
    if arranged.shape[1] == 0:
        return 0.0, 0
    scores = network(source[source != PAD].unsqueeze(0), arranged).log_softmax(2)
    return scores.gather(2, arranged.unsqueeze(2)).sum().item(), arranged.shape[1]


@pytest.mark.parametrize(("algorithm", "beams", "norm", "order"), [
    *(("greedy", 1, "pre", order) for order in EVERY_ORDER), *(("beam", 3, "pre", order) for order in EVERY_ORDER),
    *(("beam", 5, "post", order) for order in FEW), *(("greedy", 1, "post", order) for order in FEW),
    *(("beam", 1, "pre", order) for order in FEW),
    *(("pair_beam", beams, "pre", order) for beams in (2, 5) for order in PAIRS)])
def test_the_score_of_a_search_is_that_of_the_forward_pass(tiny: Tiny, algorithm: str, beams: int, norm: str,
                                                           order: str) -> None:
    network, penalty = tiny(order, norm=norm), LengthPenalty("gnmt", 0.0 if algorithm == "greedy" else 0.8)
    found = run(network, SOURCES, algorithm, beams, penalty, beams)
    for row, source in enumerate(SOURCES):
        for rank, target in enumerate(words(found)[row]):
            if found.scores[row, rank] == -torch.inf:
                continue
            score, slots = teacher_forced(network, source, target, bool(found.ended[row, rank]))
            assert found.scores[row, rank].item() * float(penalty(slots)) == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize(("algorithm", "order"), [
    *(("beam", order) for order in EVERY_ORDER), *(("pair_beam", order) for order in PAIRS)])
def test_nbest_lists_are_sorted_and_distinct(tiny: Tiny, algorithm: str, order: str) -> None:
    network = tiny(order)
    five = run(network, SOURCES, algorithm, 5, LengthPenalty(), 5)
    assert (five.scores[:, :-1] >= five.scores[:, 1:]).all()
    for row, scores in zip(words(five), five.scores.tolist(), strict=True):
        real = [tuple(target) for target, score in zip(row, scores, strict=True) if score > -torch.inf]
        assert len(set(real)) == len(real) >= 1
    # A sentence whose first N hypotheses are safe may stop earlier, but never with another best one.
    one = run(network, SOURCES, algorithm, 5, LengthPenalty(), 1)
    assert [row[0] for row in words(one)] == [row[0] for row in words(five)]
    assert (one.calls <= five.calls).all()


@few_orders
def test_single_precision_finds_the_same(tiny: Tiny, order: str) -> None:
    double = beam.search(tiny(order), SOURCES, LIMIT, beam.Settings(3))
    single = beam.search(tiny(order, dtype=torch.float32), SOURCES, LIMIT, beam.Settings(3))
    assert words(single) == words(double)
    assert torch.allclose(single.scores.double(), double.scores, atol=1e-4)


@every_order
def test_a_real_network_on_no_sentences(tiny: Tiny, order: str) -> None:
    network, empty = tiny(order), torch.empty(0, 0, dtype=torch.long)
    assert greedy.search(network, empty, LIMIT).lengths.shape == (0, 1)
    assert beam.search(network, empty, LIMIT, beam.Settings(3, nbest=2)).lengths.shape == (0, 2)
