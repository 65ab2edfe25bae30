"""Orders: what stands in which slot, its exact inverse, positions and mask."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from orders import EVERY_ORDER
from torch import Tensor

from pipeline.errors import PipelineError
from pipeline.model.orders import ORDER_NAMES, Order, make_order
from pipeline.model.settings import OrderSettings
from pipeline.vocabulary import BOS, EOD, EOS, PAD

every_order = pytest.mark.parametrize("order", EVERY_ORDER.values(), ids=EVERY_ORDER)
words = st.integers(7, 30)


def batch(rows: list[list[int]], after: int = 99) -> tuple[Tensor, Tensor]:
    """A target (B, N) with arbitrary ids after the rows, and its lengths."""
    longest = max(map(len, rows))
    return (torch.tensor([row + [after] * (longest - len(row)) for row in rows]).view(len(rows), longest),
            torch.tensor([len(row) for row in rows]))


@every_order
@settings(max_examples=30)
@given(rows=st.lists(st.lists(words, max_size=40), min_size=1, max_size=5))
def test_restore_inverts_arrange(order: Order, rows: list[list[int]]) -> None:
    target, lengths = batch(rows)
    restored, restored_lengths = order.restore(order.arrange(target, lengths))
    assert restored_lengths.tolist() == lengths.tolist()
    assert restored.shape == target.shape
    assert [row[:length] for row, length in zip(restored.tolist(), lengths.tolist(), strict=True)] == rows
    assert all(set(row[length:]) <= {PAD} for row, length in zip(restored.tolist(), lengths.tolist(), strict=True))


@every_order
def test_every_length_alone(order: Order) -> None:
    for length in range(41):
        target = torch.arange(100, 100 + length).view(1, length)
        arranged = order.arrange(target, torch.tensor([length]))
        slots = order.slots(length)
        assert arranged.shape == (1, slots)
        assert slots % order.width == 0 and length < slots <= length + order.width
        assert sorted(arranged[0, :length].tolist()) == target[0].tolist()
        assert set(arranged[0, length:].tolist()) == {order.end}
        assert order.restore(arranged)[0].tolist() == target.tolist()


@every_order
def test_a_row_is_arranged_the_same_in_any_batch(order: Order) -> None:
    rows = [list(range(10, 10 + length)) for length in (0, 1, 2, 5, 9)]
    together = order.arrange(*batch(rows))
    for row, arranged in zip(rows, together, strict=True):
        alone = order.arrange(*batch([row]))[0]
        assert arranged[:len(alone)].tolist() == alone.tolist()
        assert set(arranged[len(alone):].tolist()) <= {PAD}


@pytest.mark.parametrize(("name", "target", "arranged"), [
    ("left_to_right", [11, 12, 13], [11, 12, 13, EOS]),
    ("right_to_left", [11, 12, 13], [13, 12, 11, EOS]),
    # Equation 6 of Zhang et al. (2020): y1 yn y2 y(n-1) …
    ("interleaved", [11, 12, 13, 14, 15, 16], [11, 16, 12, 15, 13, 14, EOS, EOS]),
    ("interleaved", [11, 12, 13, 14, 15], [11, 15, 12, 14, 13, EOS]),
    ("interleaved", [11], [11, EOS]),
    ("interleaved", [], [EOS, EOS]),
    ("left_to_right", [], [EOS]),
    ("semi_autoregressive2", [11, 12, 13], [11, 12, 13, EOS]),
    ("semi_autoregressive4", [11, 12, 13], [11, 12, 13, EOS]),
    ("right_to_left3", [11, 12, 13, 14], [14, 13, 12, 11, EOS, EOS]),
    # Their Figure 1e: the same slots as interleaved, four a step.
    ("interleaved_sa2", [11, 12, 13, 14, 15, 16], [11, 16, 12, 15, 13, 14, EOS, EOS]),
    # Equation 9, Figure 1d: two segments of three words, each from both of its ends (left ends first in a step).
    ("multi_directional4", [11, 12, 13, 14, 15, 16], [11, 14, 13, 16, 12, 15, EOS, EOS]),
    ("multi_directional4", [11, 12, 13, 14, 15, 16, 17], [11, 15, 14, 17, 12, 16, 13, EOS]),
    ("multi_directional4", [11, 12, 13, 14, 15, 16, 17, 18], [11, 15, 14, 18, 12, 16, 13, 17, EOS, EOS, EOS, EOS]),
    ("multi_directional6", [11, 12, 13, 14, 15, 16, 17], [11, 14, 16, 13, 15, 17, 12, EOS, EOS, EOS, EOS, EOS]),
    # Imamura and Sumita, section 3.2: folded halves, one or two EODs.
    ("double_token", [11, 12, 13, 14, 15, 16], [11, 16, 12, 15, 13, 14, EOD, EOD]),
    ("double_token", [11, 12, 13], [11, 13, 12, EOD]),
    ("double_token_l2r", [11, 12, 13], [11, 12, 13, EOD]),
    ("double_token_r2l", [11, 12, 13, 14], [14, 13, 12, 11, EOD, EOD]),
    ("middle_to_side", [11, 12, 13, 14, 15, 16], [13, 14, 12, 15, 11, 16, EOS, EOS]),
    ("middle_to_side", [11, 12, 13, 14, 15], [13, 14, 12, 15, 11, EOS]),
])
def test_arranged_by_hand(name: str, target: list[int], arranged: list[int]) -> None:
    lengths = torch.tensor([len(target)])
    assert EVERY_ORDER[name].arrange(torch.tensor([target], dtype=torch.long), lengths).tolist() == [arranged]


@pytest.mark.parametrize(("name", "positions"), [
    ("left_to_right", [0, 1, 2, 3, 4, 5]),
    ("right_to_left", [0, 1, 2, 3, 4, 5]),
    ("interleaved", [1, -1, 2, -2, 3, -3]),
    ("interleaved_sa2", [1, -1, 2, -2, 3, -3]),
    ("multi_directional4", [0, 0, 0, 0, 1, 1]),
    ("vanilla_positions", [0, 1, 2, 3, 4, 5]),
    ("middle_to_side", [1, -1, 2, -2, 3, -3]),
])
def test_positions_by_hand(name: str, positions: list[int]) -> None:
    assert EVERY_ORDER[name].positions(torch.arange(6)).tolist() == positions


@pytest.mark.parametrize("directions", [1, 2, 3])
@pytest.mark.parametrize("words_a_step", [1, 2, 3])
def test_mask_is_that_of_equation_4(directions: int, words_a_step: int) -> None:
    left_to_right = EVERY_ORDER["left_to_right"]
    order = Order("any", directions, words_a_step, left_to_right.indices, left_to_right.positions)
    mask, slots = order.mask(13), range(1, 14)
    group = directions * words_a_step
    for i in slots:  # Equation 4 counts from 1: slot i sees slots 1 … ceil(i / hc) · hc.
        visible = -(-i // group) * group
        assert mask[i - 1].tolist() == [j <= visible for j in slots]


@every_order
def test_a_row_without_an_end_is_all_words(order: Order) -> None:
    cut = torch.tensor([[21, 22, 23, 24], [31, 32, order.end, order.end]])
    restored, lengths = order.restore(cut)
    assert lengths.tolist() == [4, 2]
    assert sorted(restored[0].tolist()) == [21, 22, 23, 24]
    # What was cut comes back to the same slots.
    assert order.arrange(restored, lengths)[0, :4].tolist() == [21, 22, 23, 24]


@every_order
@settings(max_examples=30)
@given(row=st.lists(words, max_size=12), after=st.lists(st.sampled_from([PAD, EOS, EOD, 8, 9]), max_size=8))
def test_what_is_after_the_first_end_does_not_count(order: Order, row: list[int], after: list[int]) -> None:
    arranged = order.arrange(*batch([row]))[0, :len(row) + 1].tolist()
    restored, lengths = order.restore(torch.tensor([arranged + after]))
    assert lengths.tolist() == [len(row)]
    assert restored.tolist() == [row]


@every_order
def test_no_rows(order: Order) -> None:
    restored, lengths = order.restore(torch.empty(0, 4, dtype=torch.long))
    assert restored.shape == (0, 0) and lengths.shape == (0,)


def test_the_ablations_see_less() -> None:
    assert EVERY_ORDER["vanilla_mask"].mask(9).equal(EVERY_ORDER["left_to_right"].mask(9))
    alone, together = EVERY_ORDER["independent_directions"].mask(8), EVERY_ORDER["interleaved"].mask(8)
    for row in range(8):
        for column in range(8):
            assert alone[row, column] == (together[row, column] and row % 2 == column % 2)


def test_start_symbols() -> None:
    starts = {label: order.starts for label, order in EVERY_ORDER.items() if set(order.starts) != {BOS}}
    assert starts == {"double_token": (BOS, EOS), "double_token_r2l": (EOS, EOS)}
    assert {label for label, order in EVERY_ORDER.items() if order.end == EOD} == {
        "double_token", "double_token_l2r", "double_token_r2l"}
    assert all(len(order.starts) == order.width for order in EVERY_ORDER.values())


def test_every_name_makes_an_order_and_is_tested_here() -> None:
    assert {order.name for order in EVERY_ORDER.values()} == set(ORDER_NAMES)
    for name in ORDER_NAMES:
        assert make_order(OrderSettings(name)).name == name
    assert make_order(OrderSettings("multi_directional")).directions == 4


@pytest.mark.parametrize(("wanted", "message"), [
    (OrderSettings("sideways"), "'sideways' is unknown; choose one of left_to_right, "),
    (OrderSettings("multi_directional", 3), "directions 3.*choose an even number above 2"),
    (OrderSettings("multi_directional", 2), "directions 2.*choose an even number above 2"),
    (OrderSettings("interleaved", 4), "has 2 directions, not 4; .*multi_directional"),
    (OrderSettings("left_to_right", 2), "has 1 directions, not 2"),
    (OrderSettings("double_token", words=2), "cannot produce 2 words per direction; it produces 1"),
    (OrderSettings("double_token_l2r", words=1), "it produces 2"),
])
def test_orders_that_cannot_be(wanted: OrderSettings, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make_order(wanted)
