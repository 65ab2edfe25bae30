"""A decoder's state: after any reorder, shrink or rejected draft it is what it would have been without."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from orders import EVERY_ORDER, inputs_of
from torch import Tensor

from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

pytestmark = pytest.mark.usefixtures("engine", "uninitialised_is_nan")

Tiny = Callable[..., Transformer]
EXACT = {"rtol": 0, "atol": 1e-10}
SLOTS = 24
SOURCE = torch.tensor([[8, 9, 10, 11, 3], [12, 7, 3, PAD, PAD], [13, 3, PAD, PAD, PAD]])


def random_slots(rows: int, seed: int) -> Tensor:
    return torch.randint(7, 20, (rows, SLOTS), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("rows", [
    [0, 1, 2, 3, 4, 5, 6, 7, 8],  # as they were
    [2, 1, 0, 4, 4, 3, 8, 8, 8],  # reordered within their sentences
    [1, 0, 0, 8, 7, 6],  # and the second sentence gone
    [5, 4, 4],  # only the second left
])
def test_select_moves_beams_and_drops_sentences(tiny: Tiny, order: str, rows: list[int]) -> None:
    network, beams = tiny(order), 3
    arranged, moved = random_slots(9, seed=1), torch.tensor(rows)
    state = network.start(network.encode(SOURCE), beams=beams)
    z = network.order.width
    past = 8 // z * z
    network.step(inputs_of(network.order, arranged)[:, :past], state)
    state.select(moved)
    assert state.rows == len(rows)

    # Each row goes on with words of its own after the past of the row that it stems from.
    arranged = torch.cat([arranged[moved][:, :past], random_slots(len(rows), seed=2)[:, past:]], 1)
    whole = network(SOURCE[moved // beams], arranged)
    inputs = inputs_of(network.order, arranged)
    for start in range(past, SLOTS, z):
        logits = network.step(inputs[:, start:start + z], state)
        torch.testing.assert_close(logits, whole[:, start:start + z], **EXACT)


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_rejected_draft_leaves_no_trace(tiny: Tiny, order: str) -> None:
    network = tiny(order)
    arranged = random_slots(3, seed=3)
    inputs, whole = inputs_of(network.order, arranged), network(SOURCE, arranged)
    state = network.start(network.encode(SOURCE))
    z = network.order.width
    network.step(inputs[:, :z], state)
    network.step(random_slots(3, seed=4)[:, :2 * z], state)
    state.rewind(z)
    torch.testing.assert_close(network.step(inputs[:, z:2 * z], state), whole[:, z:2 * z], **EXACT)


@pytest.mark.parametrize("order", EVERY_ORDER)
@settings(max_examples=25)
@given(accepted=st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=6), block=st.integers(1, 4))
def test_rows_may_accept_different_parts_of_their_drafts(tiny: Tiny, order: str, accepted: list[tuple[int, ...]],
                                                         block: int) -> None:
    """Draft-and-verify in miniature: each row keeps the number of steps of a block that the example gives."""
    network = tiny(order)
    z = network.order.width
    arranged = random_slots(3, seed=5)
    inputs, whole = inputs_of(network.order, arranged), network(SOURCE, arranged)
    state = network.start(network.encode(SOURCE), capacity=1)
    done = torch.zeros(3, dtype=torch.long)
    n = block * z
    for counts in accepted:
        if int(done.max()) + n > SLOTS:
            break
        kept = torch.tensor([min(count, block) * z for count in counts])
        at = done.unsqueeze(1) + torch.arange(n)
        right = torch.arange(n) < kept.unsqueeze(1)
        draft = inputs.gather(1, at).where(right, 19)
        logits = network.step(draft, state)
        torch.testing.assert_close(logits[right], whole.gather(1, at.unsqueeze(2).expand(-1, -1, 20))[right], **EXACT)
        done = done + kept
        state.rewind(done.numpy())
        assert state.length == int(done.max())


def test_a_short_row_never_sees_memory_that_nobody_wrote(tiny: Tiny) -> None:
    network = tiny()
    arranged = random_slots(3, seed=6)
    inputs, whole = inputs_of(network.order, arranged), network(SOURCE, arranged)
    state = network.start(network.encode(SOURCE))
    network.step(inputs[:, :6], state)
    state.rewind(np.array([1, 6, 4]))
    # Two more each: the first row's slots 6 and 7 exist only because the second row is longer.
    at = torch.tensor([[1, 2], [6, 7], [4, 5]])
    logits = network.step(inputs.gather(1, at), state)
    torch.testing.assert_close(logits, whole.gather(1, at.unsqueeze(2).expand(-1, -1, 20)), **EXACT)


def test_ragged_rows_can_be_selected(tiny: Tiny) -> None:
    network = tiny("interleaved")
    arranged = random_slots(3, seed=7)
    inputs, whole = inputs_of(network.order, arranged), network(SOURCE, arranged)
    state = network.start(network.encode(SOURCE))
    network.step(inputs[:, :8], state)
    state.rewind(np.array([2, 8, 4]))
    state.select(torch.tensor([2, 0]))
    at = torch.tensor([[4, 5, 6, 7], [2, 3, 4, 5]])
    logits = network.step(inputs[[2, 0]].gather(1, at), state)
    torch.testing.assert_close(logits, whole[[2, 0]].gather(1, at.unsqueeze(2).expand(-1, -1, 20)), **EXACT)
    state.rewind(0)
    torch.testing.assert_close(network.step(inputs[[2, 0], :4], state), whole[[2, 0], :4], **EXACT)


def test_room_grows_by_doubling_and_keeps_the_past(tiny: Tiny) -> None:
    network = tiny()
    state = network.start(network.encode(SOURCE[:1]), capacity=2)
    capacities = []
    for _ in range(20):
        network.step(torch.tensor([[9]]), state)
        capacities.append(state._past.shape[4])
    assert state.length == 20
    assert sorted(set(capacities)) == [2, 4, 8, 16, 32]


def test_the_longest_row_may_leave(tiny: Tiny) -> None:
    network = tiny()
    arranged = random_slots(3, seed=8)
    inputs, whole = inputs_of(network.order, arranged), network(SOURCE, arranged)
    state = network.start(network.encode(SOURCE))
    network.step(inputs[:, :20], state)
    state.rewind(np.array([3, 20, 5]))
    state.select(torch.tensor([0, 2]))
    assert state.length == 5
    at = torch.tensor([[3, 4], [5, 6]])
    logits = network.step(inputs[[0, 2]].gather(1, at), state)
    torch.testing.assert_close(logits, whole[[0, 2]].gather(1, at.unsqueeze(2).expand(-1, -1, 20)), **EXACT)
