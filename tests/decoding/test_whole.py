"""Searches that are one compiled call: the same as those that come back to Python after every step."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import sources

from pipeline.decoding import greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.model.settings import NORMS
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9), st.sampled_from(["left_to_right", "right_to_left"]),
       st.sampled_from(NORMS), st.integers(1, 12), st.sampled_from([torch.float32, torch.float64]))
def test_greedy_search_step_by_step(tiny: Tiny, length: int, seed: int, order: str, norm: str, most: int,
                                    dtype: torch.dtype) -> None:
    network, source = tiny(order, seed=seed, norm=norm, dtype=dtype), sources(length)
    limit = LengthLimit(ratio=0, extra=most, longest=47)
    whole = greedy.search(network, source, limit)
    network.finish = lambda *_: None  # type: ignore[method-assign,assignment]
    stepwise = greedy.search(network, source, limit)
    for name in ("tokens", "lengths", "ended", "calls"):
        assert torch.equal(getattr(whole, name), getattr(stepwise, name)), name
    torch.testing.assert_close(whole.scores, stepwise.scores, rtol=0, atol=1e-9)
    del network.finish


def test_the_state_stands_behind_what_was_read(tiny: Tiny) -> None:
    network, source = tiny(seed=3), sources(6)
    state = network.start(network.encode(source))
    found = network.finish(torch.tensor([network.order.starts]), state, 5)
    assert found is not None and state.length == len(found[0])
    again = network.start(network.encode(source))
    read = torch.cat((torch.tensor([network.order.starts]), found[0][None, :-1]), 1)
    logits = network.step(read, again)
    assert torch.equal(logits[0].argmax(1), found[0]) and state.hidden is not None
    assert found[1] == pytest.approx(float(logits[0].log_softmax(1).gather(1, found[0][:, None]).sum()), abs=1e-9)


def test_more_tokens_than_places_are_refused(tiny: Tiny) -> None:
    network = tiny(seed=4)
    network.projection.weight.data[network.order.end] = -100  # never ends
    network.regather()
    with pytest.raises(IndexError, match="more than the"):
        network.finish(torch.tensor([network.order.starts]), network.start(network.encode(sources(3))), 500)
