"""A quantised model: what it computes, by torch and by the engine, and what it shares with its network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lattices import lattice
from safetensors.torch import load_file
from scripted import Scripted, logits
from sentences import sources
from torch import nn

from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.engine import bounds, packing
from pipeline.engine.door import open_engine, use_engine
from pipeline.engine.matrix import affine
from pipeline.engine.network import Compiled
from pipeline.engine.packing import pack_matrix
from pipeline.engine.reading import ALONE
from pipeline.errors import PipelineError
from pipeline.evaluation.exactness import count_ties
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.formats import in_format
from pipeline.model.orders import make_order
from pipeline.model.quantised import RoundedLinear, linear
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=2.0, extra=4, longest=30)
INT8 = {"algorithm": "greedy", "quantization": "int8"}


def quantised(network: Any) -> Any:
    return in_format(network, "int8")


def plain(**changes: Any) -> Transformer:
    """A network that nobody has opened."""
    torch.manual_seed(3)
    settings = {"width": 16, "heads": 2, "feed_forward": 32, "encoder_layers": 1, "decoder_layers": 1,
                "max_length": 32, "dropout": 0.0, **changes}
    return Transformer(NetworkSettings(**settings), 20, 20, make_order(OrderSettings("left_to_right"))).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("inputs", [4, 512, 1040, 1044, 4096])
def test_torch_and_the_engine_compute_the_same_bits(dtype: torch.dtype, inputs: int) -> None:
    """Also of sums of products that float32 does not hold exactly, and of rows of zeros."""
    random = torch.Generator().manual_seed(inputs)
    weight, bias = torch.randn(37, inputs, generator=random, dtype=dtype), torch.randn(37, dtype=dtype)
    x = torch.randn(5, inputs, generator=random, dtype=dtype)
    x[1] = 0
    x[2], weight[3] = x[2].abs(), weight[3].abs()  # a large sum
    found = torch.empty(5, 37, dtype=dtype)
    affine(x.numpy(), *pack_matrix(weight.t().numpy(), True), bias.numpy(), found.numpy(), ALONE)
    by_torch = linear(weight, bias, rounded=True)(x)
    assert by_torch.dtype == dtype and torch.equal(by_torch, found)
    torch.testing.assert_close(found, x @ weight.t() + bias, rtol=0.05, atol=0.1 * inputs**0.5)


def test_it_shares_the_parameters_and_the_network_stays_exact(tmp_path: Path) -> None:
    network = plain()
    exact = network.encode(sources(5)).states
    rounded = quantised(network)
    assert all(mine is theirs for mine, theirs in zip(rounded.parameters(), network.parameters(), strict=True))
    assert not any(isinstance(one, RoundedLinear) for one in network.modules())
    assert torch.equal(network.encode(sources(5)).states, exact)
    difference = (rounded.encode(sources(5)).states - exact).abs().max()
    assert 1e-4 < float(difference) < 0.1
    save_checkpoint(tmp_path / "ours", rounded, VocabularySettings(20, 20, "toy"), unique_weights(rounded), {})
    stored = load_file(tmp_path / "ours/weights.safetensors")
    assert stored.keys() == unique_weights(network).keys()
    assert all(torch.equal(weight, unique_weights(network)[name]) and weight.dtype == torch.float32
               for name, weight in stored.items())


def test_what_is_not_multiplied_by_rows_of_a_step_stays_exact() -> None:
    """The lattice's gathered rows and per-sentence matrices, and the small maps of heads, lengths and normalisers."""
    network = quantised(lattice())
    kept = [name for name, one in network.named_modules() if type(one) is nn.Linear]
    assert {name.split(".")[-2:][0] for name in kept} == {"normaliser", "projection", "cross_attention"}


def test_it_is_made_once_and_follows_its_network() -> None:
    network = plain()
    first = quantised(network)
    before = first.encode(sources(5)).states
    assert quantised(network) is first and open_engine(first) is open_engine(quantised(network))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)
    network.clear_caches()
    assert quantised(network) is not first
    assert not torch.equal(quantised(network).encode(sources(5)).states, before)


@pytest.mark.parametrize("most", [64, 0], ids=["a narrow step", "a step that would be torch's"])
def test_a_step_has_the_same_bits_in_any_batch_and_after_any_draft(tiny: Tiny, monkeypatch: pytest.MonkeyPatch,
                                                                   most: int) -> None:
    monkeypatch.setattr(bounds, "of", lambda width: bounds.Bounds(most, most, most))
    model, source = quantised(tiny(dtype=torch.float32)), sources(8, 5, 3)
    tokens = torch.randint(7, 20, (3, 6), generator=torch.Generator().manual_seed(1))
    at_once = model.step(tokens, model.start(model.encode(source)))
    for row, length in enumerate((8, 5, 3)):
        state = model.start(model.encode(source[row:row + 1, :length]))
        one_by_one = torch.cat([model.step(token.view(1, 1), state) for token in tokens[row]], 1)
        assert torch.equal(one_by_one[0], at_once[row])


def test_a_width_that_the_engine_refuses_has_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    network, decode, source = plain(width=16).double(), make_decoder("greedy", INT8, LIMIT), sources(7, 4)
    expected = decode(network, source).best_words()
    monkeypatch.setattr(packing, "_fits", lambda width, rounded: False)
    network.clear_caches()
    opened = open_engine(quantised(network))
    assert opened.packs.decoder is None
    assert decode(network, source).best_words() == expected


def test_a_width_beyond_that_of_exact_steps_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_WIDEST", 8)
    network = plain()
    exact, rounded = open_engine(network), open_engine(quantised(network))
    assert exact.packs.decoder is None and rounded.packs.decoder is not None


def test_feed_forward_blocks_of_odd_width_are_computed_by_torch() -> None:
    network = plain(feed_forward=30)
    opened = open_engine(quantised(network))
    assert isinstance(opened, Compiled) and opened.packs.decoder is None
    assert len(make_decoder("greedy", INT8, LIMIT)(network, sources(6)).tokens) == 1


def test_half_precision_is_multiplied_in_float32() -> None:
    torch.manual_seed(3)
    weight, bias, x = (torch.randn(shape).bfloat16() for shape in ((8, 16), (8,), (3, 16)))
    expected = linear(weight.float(), bias.float(), rounded=True)(x.float())
    assert torch.equal(linear(weight, bias, rounded=True)(x), expected.bfloat16())
    network = plain().bfloat16()
    assert len(make_decoder("greedy", INT8, LIMIT)(network, sources(6)).tokens) == 1


def test_a_model_of_another_library_is_refused_in_one_line() -> None:
    scripted = Scripted(make_order(OrderSettings("left_to_right")), lambda source, prefix: logits({3: 0.0}))
    with pytest.raises(PipelineError, match="quantization: int8 is for networks with the layers of this package"):
        make_decoder("greedy", INT8, LIMIT)(scripted, sources(5))


@pytest.mark.parametrize("value", ["int4", 8, None])
def test_a_format_that_does_not_exist_is_refused(value: object) -> None:
    with pytest.raises(PipelineError, match=r"decoders.mine.quantization is .*; choose one of float32, int8"):
        make_decoder("mine", {**INT8, "quantization": value}, LIMIT)


def test_exactness_of_a_quantised_decoder_is_judged_by_its_own_steps(tiny: Tiny) -> None:
    model, source = tiny(dtype=torch.float32, seed=5), sources(9, 6, 4)
    verifier = quantised(model)
    greedy, found = (make_decoder("mine", {**INT8, "algorithm": algorithm}, LIMIT)(model, source)
                     for algorithm in ("greedy", "iad"))
    assert count_ties(verifier, source, greedy, found, "iad") == 0
    greedy.tokens[0, 0, 0] = 7 if int(greedy.tokens[0, 0, 0]) != 7 else 8
    with pytest.raises(PipelineError, match=r"more than rounding explains \(0.0001\)"):
        count_ties(verifier, source, greedy, found, "iad")


def test_torch_computes_a_quantised_model_nearly_as_the_engine_does(tiny: Tiny) -> None:
    """In float32 not the same text: a difference in the last bit may round a number to another multiple."""
    network, source = tiny(dtype=torch.float32), sources(8, 5)
    compiled = quantised(network).encode(source).states
    with use_engine("torch"):
        torch.testing.assert_close(quantised(network).encode(source).states, compiled, rtol=0, atol=0.2)
