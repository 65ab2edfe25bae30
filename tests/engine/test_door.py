"""The door: which networks it opens, that they are opened once, and that what is open follows its network."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from drafters import drafter, with_heads
from lattices import lattice
from scripted import Scripted, logits
from sentences import sources

from pipeline.decoding import greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.engine import sentence
from pipeline.engine.choice import Engine
from pipeline.engine.door import engine_in_use, open_engine, use_engine
from pipeline.engine.network import Compiled
from pipeline.errors import PipelineError
from pipeline.model.formats import in_format
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=2.0, extra=4, longest=30)
SETTINGS = NetworkSettings(width=16, heads=2, feed_forward=32, encoder_layers=1, decoder_layers=1, max_length=32,
                           dropout=0.1)


def plain(seed: int = 1) -> Transformer:
    """A network that nobody has opened."""
    torch.manual_seed(seed)
    return Transformer(SETTINGS, 20, 20, make_order(OrderSettings("left_to_right"))).eval()


def test_a_network_is_opened_once_and_keeps_its_class_and_parameters() -> None:
    network = plain()
    opened = open_engine(network)
    assert isinstance(opened, Transformer) and isinstance(opened, Compiled) and not isinstance(network, Compiled)
    assert open_engine(network) is opened and open_engine(opened) is opened
    assert all(mine is theirs for mine, theirs in zip(opened.parameters(), network.parameters(), strict=True))


@pytest.mark.parametrize("change", [
    lambda network: network.load_state_dict(plain(seed=5).state_dict()) and network.eval(),
    lambda network: network.double(), lambda network: network.train() and network.eval()])
def test_an_opened_network_follows_its_network(change: Callable[[Transformer], object]) -> None:
    network = plain()
    before = open_engine(network)
    before.encode(sources(5))  # packs
    change(network)
    after = open_engine(network)
    assert after is not before and open_engine(network) is after
    with use_engine("torch"):
        expected = network.encode(sources(5)).states
    torch.testing.assert_close(after.encode(sources(5)).states, expected, rtol=0, atol=1e-5)


def test_copies_follow_what_is_attached(tiny: Tiny) -> None:
    """Opened and rounded ones, of a count model and of a verifier."""
    network, verifier = lattice(), tiny()
    drafting = drafter(verifier)
    before = [in_format(one, "int8") for one in (network, drafting)]
    other = network.counts._replace(diagonal=0.5)
    network.attach_counts(other)
    drafting.attach_verifier(tiny(seed=9))
    after = [in_format(one, "int8") for one in (network, drafting)]
    assert after[0].counts is other is open_engine(network).counts
    assert all(new is not old for new, old in zip(after, before, strict=True))
    source = sources(4, 6)
    assert not torch.equal(after[1].verifier.encode(source).states, before[1].verifier.encode(source).states)


@pytest.mark.parametrize("part", ["decoder", "rounded", "encoder", "source", "chain", "heads", "scorer"])
@torch.no_grad()
def test_packs_are_copies(tiny: Tiny, part: str) -> None:
    verifier = tiny(positions="learned")
    network: Transformer = {"heads": lambda: with_heads(verifier), "scorer": lambda: lattice(positions="learned")}.get(
        part, lambda: drafter(verifier, chained=True, positions="learned", encoder_layers=1))()
    packed = list(arrays(getattr(open_engine(network).packs, part)))
    assert packed and not any(np.may_share_memory(parameter.detach().numpy(), one)
                              for parameter in network.parameters() for one in packed)


def arrays(packed: Any) -> Iterator[np.ndarray]:
    """All arrays of nested tuples."""
    if isinstance(packed, np.ndarray):
        yield packed
    elif isinstance(packed, tuple):
        for one in packed:
            yield from arrays(one)


@pytest.mark.parametrize("quantization", ["float32", "int8"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(value: float, quantization: str) -> None:
    """NaN is not above anything, so what compiled search finds by comparisons would be an empty translation."""
    network = plain()
    decode = make_decoder("any", {"algorithm": "greedy", "quantization": quantization}, LIMIT)
    with torch.no_grad():
        network.source_keys_values.weight[11, 3] = value
    for _ in range(2):
        with pytest.raises(PipelineError, match=r"^source_keys_values.weight: some of its .*; train it again"):
            decode(network, sources(5))


def test_what_cannot_be_compiled_is_left_alone() -> None:
    scripted = Scripted(make_order(OrderSettings("left_to_right")), lambda source, prefix: logits({3: 0.0}))
    half = plain().to(torch.bfloat16)
    for model in (scripted, half, plain().train()):
        assert open_engine(model) is model


def test_a_drafters_verifier_is_opened_with_it(tiny: Tiny) -> None:
    for network in (drafter(tiny()), with_heads(tiny())):
        assert isinstance(network.verifier, Compiled)


def test_torch_is_in_use_while_it_is_asked_for() -> None:
    network, source = plain(), sources(5)
    opened = open_engine(network)
    state, most = opened.start(opened.encode(source)), np.array([4])
    assert engine_in_use() == "compiled" and sentence.greedy(opened, state, most) is not None
    with use_engine("torch"):
        assert engine_in_use() == "torch" and open_engine(network) is network
        assert sentence.greedy(opened, state, most) is None
        with use_engine("compiled"):
            assert open_engine(network) is opened
    assert engine_in_use() == "compiled" and sentence.greedy(network, state, most) is None  # nobody has opened it


def test_decoders_open_what_they_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    search = greedy.search
    monkeypatch.setattr(greedy, "search", lambda model, *rest: (searched.append(model), search(model, *rest))[1])
    network = plain()
    decode = make_decoder("any", {"algorithm": "greedy"}, LIMIT)
    found = decode(network, sources(5))
    with use_engine("torch"):
        expected = decode(network, sources(5))
    assert searched == [open_engine(network), network]
    assert torch.equal(found.tokens, expected.tokens) and torch.equal(found.calls, expected.calls)


@pytest.mark.parametrize("engine", ["compiled", "static"])
def test_what_was_opened_is_freed_once_its_network_has_changed(engine: Engine) -> None:
    """It has copies of all weights, or the memory of many states: too much to wait for Python's collector."""
    network = plain()
    gc.disable()
    try:
        with use_engine(engine):
            opened = open_engine(network)
            greedy.search(opened, sources(5), LIMIT)
            gone = weakref.ref(opened)
            del opened
            network.clear_caches()
            greedy.search(open_engine(network), sources(5), LIMIT)
        assert gone() is None
    finally:
        gc.enable()
