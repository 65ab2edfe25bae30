"""Warm starts: what fits is copied, and a wider or deeper network begins with the function of its start."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from orders import EVERY_ORDER

from pipeline.errors import PipelineError
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.settings import VocabularySettings
from pipeline.model.start import DECODER, begin_with
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
SOURCE = torch.tensor([[8, 9, 10, 11, 3], [12, 13, 3, 0, 0]])


def save(folder: Path, network: Transformer) -> Path:
    save_checkpoint(folder, network, VocabularySettings(20, 20, "c0ffee"), unique_weights(network), {})
    return folder


def test_a_warm_start_copies_what_fits(tmp_path: Path, tiny: Tiny) -> None:
    teacher = tiny("left_to_right", seed=1, dtype=torch.float32, positions="learned", max_length=40)
    student = tiny("interleaved", seed=2, dtype=torch.float32, positions="learned", max_length=40, decoder_layers=3)
    before = {name: weight.clone() for name, weight in unique_weights(student).items()}
    fresh = begin_with(student, save(tmp_path / "model", teacher))
    known, after = unique_weights(teacher), unique_weights(student)
    stacked = {"source_keys_values.weight", "source_keys_values.bias"}
    for name in after.keys() - stacked:
        expected = before[name] if name in fresh else known[name]
        adds_nothing = name in fresh and ("output" in name or "outer" in name)  # the layer that the teacher lacks
        assert torch.equal(after[name], torch.zeros_like(expected) if adds_nothing else expected), name
    # Of the source's keys and values, stacked layer by layer, the third layer's are its own.
    for name in stacked:
        assert torch.equal(after[name], torch.cat([known[name], before[name][len(known[name]):]]))
    # 41 slots of the teacher are 42 of the student.
    assert set(fresh) == {"target_positions.learned"} | {name for name in after if name.startswith("decoder.2.")}


def test_a_warm_start_without_the_decoder(tmp_path: Path, tiny: Tiny) -> None:
    """Of one that generates the other way round: the encoder and the embeddings are the same."""
    given, network = tiny("left_to_right", seed=1), tiny("right_to_left", seed=2)
    before = {name: weight.clone() for name, weight in unique_weights(network).items()}
    fresh = begin_with(network, save(tmp_path / "model", given), left_out=DECODER)
    for name, weight in unique_weights(network).items():
        assert torch.equal(weight, before[name] if name in fresh else unique_weights(given)[name]), name
    assert {name.split(".")[0] for name in before if name not in fresh} == {
        "encoder", "encoder_norm", "source_embedding", "target_embedding", "projection"}


@torch.no_grad()
def test_a_right_to_left_start_has_its_words_where_the_right_ones_of_both_ends_are(tmp_path: Path, tiny: Tiny) -> None:
    """The right words of an order whose directions do not see each other: the logits are the same, word for word."""
    given = tiny("independent_directions", seed=1)
    network = tiny("right_to_left", seed=2, positions="learned")
    assert begin_with(network, save(tmp_path / "model", given), positions=(-1, -1)) == [
        "source_positions.learned", "target_positions.learned"]
    source, target = torch.tensor([[8, 9, 10, 3]]), torch.tensor([[11, 12, 13, 14, 15, 16]])
    both = given(source, given.order.arrange(target, torch.tensor([6])))[:, 1::2]
    alone = network(source, network.order.arrange(target, torch.tensor([6])))
    torch.testing.assert_close(alone[:, :4], both, rtol=0, atol=1e-9)


def test_a_warm_start_of_a_shallower_network(tmp_path: Path, tiny: Tiny) -> None:
    teacher = tiny(seed=1, dtype=torch.float32, decoder_layers=3)
    student = tiny(seed=2, dtype=torch.float32, decoder_layers=1)
    assert begin_with(student, save(tmp_path / "model", teacher)) == []
    keys = teacher.source_keys_values.weight
    assert torch.equal(student.source_keys_values.weight, keys[:len(keys) // 3])


def test_a_warm_start_from_another_width(tmp_path: Path, tiny: Tiny) -> None:
    folder = save(tmp_path / "model", tiny(dtype=torch.float32, feed_forward=64))
    other = tiny(dtype=torch.float32, width=8, feed_forward=16, vocabulary=21)
    with pytest.raises(PipelineError, match="no weight fits the model"):
        begin_with(other, folder)




def logits(network: Transformer) -> torch.Tensor:
    """Of two sentences, whose targets have words for every slot."""
    slots = (7 + torch.arange(36) % 13).view(2, 18)
    return network(SOURCE, slots)


@torch.no_grad()
@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_larger_network_begins_with_the_function_of_its_start(tmp_path: Path, tiny: Tiny, order: str) -> None:
    """Twice as many heads of twice the width, three times the inner units, more layers in both stacks."""
    for ties in ("all", "none"):
        given = tiny(order, seed=1, positions="learned", tied_embeddings=ties)
        network = tiny(order, seed=2, positions="learned", tied_embeddings=ties, width=64, heads=4, feed_forward=96,
                       encoder_layers=3, decoder_layers=4)
        begin_with(network, save(tmp_path / "model", given))
        torch.testing.assert_close(logits(network), logits(given), rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("changes", [{"width": 32}, {"width": 32, "heads": 4}, {"feed_forward": 64}, {"heads": 1},
                                     {"encoder_layers": 5}, {"decoder_layers": 3}])
def test_every_axis_grows_by_itself(tmp_path: Path, tiny: Tiny, changes: dict[str, int]) -> None:
    given = tiny("interleaved", seed=1, positions="learned")
    network = tiny("interleaved", seed=2, positions="learned", **changes)
    begin_with(network, save(tmp_path / "model", given))
    same = torch.allclose(logits(network), logits(given), rtol=0, atol=1e-10)
    assert same == (changes != {"heads": 1})  # fewer and larger heads are no copies of more and smaller ones


@torch.no_grad()
@pytest.mark.parametrize("begin", [None, (-1, 1)])
def test_a_wider_network_repeats_the_sinusoids_of_its_start(tmp_path: Path, tiny: Tiny,
                                                            begin: tuple[int, int] | None) -> None:
    given = tiny("left_to_right", seed=1)
    network = tiny("left_to_right", seed=2, positions="learned", width=32)
    same = tiny("left_to_right", seed=3, positions="learned")
    folder = save(tmp_path / "model", given)
    for one in (network, same):
        begin_with(one, folder, positions=begin)
    torch.testing.assert_close(logits(network), logits(same), rtol=0, atol=1e-5)  # sinusoids have single precision


def test_copies_of_a_unit_learn_different_things(tmp_path: Path, tiny: Tiny) -> None:
    given = tiny("left_to_right", seed=1, positions="learned")
    network = tiny("left_to_right", seed=2, positions="learned", width=32, feed_forward=64)
    begin_with(network, save(tmp_path / "model", given))
    logits(network).square().sum().backward()
    for layer in (*network.encoder, *network.decoder):
        gradient = layer.feed_forward.inner.weight.grad
        assert not torch.allclose(gradient[:32], gradient[32:], rtol=1e-2)


@torch.no_grad()
def test_layers_on_top_of_a_post_norm_start_are_random(tmp_path: Path, tiny: Tiny) -> None:
    """After the sum, a normalisation would change what an identity leaves."""
    given = tiny("left_to_right", seed=1, norm="post")
    network = tiny("left_to_right", seed=2, norm="post", decoder_layers=3)
    begin_with(network, save(tmp_path / "model", given))
    assert network.decoder[2].feed_forward.outer.weight.all()


@pytest.mark.parametrize(("changes", "message"), [
    ({}, "network.positions: sinusoidal: a network that begins with the weights of a narrower one needs learned"),
    ({"positions": "learned", "norm": "post"}, "network.norm: post: a network that begins .* needs pre"),
])
def test_what_cannot_repeat_the_units_of_its_start(tmp_path: Path, tiny: Tiny, changes: dict[str, str],
                                                   message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        begin_with(tiny(width=32, **changes), save(tmp_path / "model", tiny()))
