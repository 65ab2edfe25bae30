"""The compiled decoder step: the plain one's numbers, and the same bits whatever stands beside a token."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from orders import EVERY_ORDER
from sentences import sources
from torch import Tensor

from pipeline.engine import bounds, decoder, packing
from pipeline.engine.door import use_engine
from pipeline.engine.network import Compiled
from pipeline.model.settings import ACTIVATIONS, NORMS
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]


def tokens(rows: int, count: int) -> Tensor:
    return torch.randint(7, 20, (rows, count), generator=torch.Generator().manual_seed(rows + count))


def walk(network: Transformer, beams: int) -> list[Tensor]:
    """The states of a search that steps, selects, forgets row by row and steps on."""
    z = network.order.width
    state = network.start(network.encode(sources(5, 9, 2)), beams, capacity=2)
    rows = 3 * beams
    found = [network.advance(tokens(rows, z), state), network.advance(tokens(rows, 3 * z), state)]
    state.rewind(np.arange(rows) % 3 * z + z)
    found.append(network.advance(tokens(rows, 2 * z), state))
    state.select(torch.arange(beams, 3 * beams))
    found.append(network.advance(tokens(2 * beams, z), state))
    return found


@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("beams", [1, 3])
def test_it_is_the_plain_step(tiny: Tiny, order: str, norm: str, activation: str,
                              beams: int) -> None:
    network = tiny(order, norm=norm, activation=activation)
    compiled = walk(network, beams)
    with use_engine("torch"):
        plain = walk(network, beams)
    for found, expected in zip(compiled, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("width", "heads"), [(16, 2), (20, 2), (24, 3), (12, 1)])
def test_heads_may_have_any_size(tiny: Tiny, norm: str, width: int, heads: int) -> None:
    network = tiny("interleaved", norm=norm, width=width, heads=heads)
    assert isinstance(network, Compiled) and network.packs.decoder is not None
    compiled = walk(network, 3)
    with use_engine("torch"):
        plain = walk(network, 3)
    for found, expected in zip(compiled, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_it_runs_where_it_should(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    inner = decoder.step

    def counted(tokens: Any, *rest: Any) -> bool:
        calls.append(tokens.size)
        return bool(inner(tokens, *rest))

    monkeypatch.setattr(decoder, "step", counted)
    network = tiny("left_to_right")
    state = network.start(network.encode(sources(5)))
    monkeypatch.setattr(bounds, "of", lambda width: bounds.Bounds(tokens=24, pieces=0, row=20))
    network.step(tokens(1, 3), state)
    network.step(tokens(1, 20), state)
    assert calls == [3, 20]
    network.step(tokens(1, 21), state)  # a long row
    many = network.start(network.encode(sources(*[5] * 25)))
    network.step(tokens(25, 1), many)
    assert calls == [3, 20]


@pytest.mark.parametrize(("width", "widest"), [(16, 15), (18, 20), (16, 16)])
def test_other_shapes_are_left_to_torch(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, width: int, widest: int) -> None:
    monkeypatch.setattr(packing, "_WIDEST", widest)
    network = tiny("left_to_right", width=width, heads=2)
    assert isinstance(network, Compiled) and (network.packs.decoder is not None) == (width == widest)


def test_logits_are_the_plain_ones(tiny: Tiny) -> None:
    network, inputs = tiny("left_to_right"), tokens(2, 3)
    compiled = network.step(inputs, network.start(network.encode(sources(5, 3))))
    with use_engine("torch"):
        expected = network.step(inputs, network.start(network.encode(sources(5, 3))))
    torch.testing.assert_close(compiled, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("token", [-1, 20])
def test_what_is_no_token_is_refused(tiny: Tiny, token: int) -> None:
    network = tiny("left_to_right")
    with pytest.raises(IndexError, match=str(token)):
        network.step(torch.tensor([[7, token]]), network.start(network.encode(sources(5))))


def test_more_tokens_than_places_are_refused(tiny: Tiny) -> None:
    network = tiny("left_to_right")
    state, places = network.start(network.encode(sources(5))), len(network.target_positions())
    for _ in range(places):
        network.step(torch.tensor([[7]]), state)
    with pytest.raises(IndexError, match=f"{places + 1} tokens are more than the {places} places"):
        network.step(torch.tensor([[7]]), state)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("width", [16, 128, 512])
@pytest.mark.parametrize("verb", ["advance", "step"])
def test_the_same_bits_alone_together_and_after_any_draft(tiny: Tiny, norm: str, width: int, verb: str) -> None:
    network = tiny("left_to_right", norm=norm, width=width).float()
    source, inputs = sources(6, 6), tokens(2, 9)
    memory = network.encode(source)

    def states(*parts: int) -> Tensor:
        state = network.start(memory)
        return torch.cat([getattr(network, verb)(part, state) for part in inputs.split(parts, dim=1)], 1)

    expected = states(*[1] * 9)
    for parts in ((1, 4, 4), (2, 5, 1, 1), (8, 1), (3, 3, 3)):
        assert torch.equal(states(*parts), expected), parts
    alone = network.start(network.encode(source[1:]))
    assert torch.equal(getattr(network, verb)(inputs[1:], alone), expected[1:])
