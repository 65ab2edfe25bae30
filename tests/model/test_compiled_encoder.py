"""The compiled encoder and its projection: torch's numbers, and the same bits whatever else is in the batch."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentences import sources
from torch import Tensor

from pipeline.engine import bounds, encoder, packing, padding
from pipeline.engine.door import use_engine
from pipeline.engine.network import Compiled
from pipeline.engine.packs import Packs
from pipeline.model.settings import ACTIVATIONS, NORMS, POSITIONS, TIES
from pipeline.model.state import Memory
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

Tiny = Callable[..., Transformer]
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def read(network: Transformer, source: Tensor, compiled: bool = True) -> tuple[Tensor, Tensor]:
    """The states of the source, and its keys and values; each of them compiled, or neither."""
    with (use_engine("compiled" if compiled else "torch"),
          patch.object(encoder, "encode", wraps=encoder.encode) as encode,
          patch.object(encoder, "project_source", wraps=encoder.project_source) as project):
        memory = network.encode(source)
        found = memory.states, network.start(memory).source
        assert encode.called == project.called == compiled
    return found


def packs_of(network: Transformer) -> Packs:
    assert isinstance(network, Compiled)
    return network.packs


@given(LENGTHS, st.sampled_from(NORMS), st.sampled_from(ACTIVATIONS), st.sampled_from(TIES),
       st.sampled_from(POSITIONS), st.sampled_from([1, 2, 4]), st.integers(1, 3),
       st.sampled_from([torch.float32, torch.float64]))
def test_it_is_the_plain_encoder(tiny: Tiny, lengths: list[int], norm: str, activation: str, ties: str, positions: str,
                                 heads: int, layers: int, dtype: torch.dtype) -> None:
    network = tiny(norm=norm, activation=activation, tied_embeddings=ties, positions=positions, heads=heads,
                   encoder_layers=layers, decoder_layers=layers, dtype=dtype)
    source = sources(*lengths)
    loose = 1e-10 if dtype == torch.float64 else 1e-4
    present = (source != PAD).to(dtype)  # what padding is encoded as, nobody reads
    for found, expected, places in zip(read(network, source), read(network, source, compiled=False),
                                       (present[:, :, None], present[:, None, :, None]), strict=True):
        assert found.dtype == dtype and found.is_contiguous()
        torch.testing.assert_close(found * places, expected * places, rtol=0, atol=loose)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_in_groups_of_similar_length_it_is_the_same(tiny: Tiny, lengths: list[int]) -> None:
    network, source = tiny(), sources(*lengths)
    with patch.object(padding, "_CALL", 0):
        states, keys_values = read(network, source)
    expected = read(network, source, compiled=False)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(states[row, :length], expected[0][row, :length], rtol=0, atol=1e-10)
        torch.testing.assert_close(keys_values[:, :, row, :, :length], expected[1][:, :, row, :, :length],
                                   rtol=0, atol=1e-10)
        if len(set(lengths)) > 1:
            assert not states[row, length:].any() and not keys_values[:, :, row, :, length:].any()


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_no_other_groups_take_less_time(lengths: list[int]) -> None:
    def cost(parts: Iterable[Sequence[int]]) -> int:
        return sum(len(part) * max(part) + padding._CALL for part in parts)

    found = [group.tolist() for group in padding.groups(np.array(lengths))]
    assert sorted(row for group in found for row in group) == list(range(len(lengths)))
    ordered = sorted(lengths)  # sentences between two of a group belong to it, or it could be no cheaper
    cuts = (set(chosen) | {len(lengths)} for n in range(len(lengths))
            for chosen in combinations(range(1, len(lengths)), n))
    least = min(cost([ordered[first:last] for first, last in pairwise([0, *sorted(one)])]) for one in cuts)
    assert cost([[lengths[row] for row in group] for group in found]) == least


def test_a_hole_in_a_sentence_is_not_seen(tiny: Tiny) -> None:
    network, source = tiny(), sources(7, 5)
    source[0, 2] = PAD
    with patch.object(padding, "_CALL", 0):
        grouped = read(network, source)[0]
    torch.testing.assert_close(grouped[0], read(network, source)[0][0], rtol=0, atol=1e-10)
    for found, expected in zip(read(network, source), read(network, source, compiled=False), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@given(LENGTHS, st.sampled_from(NORMS), st.sampled_from(ACTIVATIONS), st.sampled_from([16, 64]))
def test_the_same_bits_alone_and_together(tiny: Tiny, lengths: list[int], norm: str, activation: str,
                                          width: int) -> None:
    network, source = tiny(norm=norm, activation=activation, width=width, dtype=torch.float32), sources(*lengths)
    states, keys_values = read(network, source)
    for row, length in enumerate(lengths):
        alone, own = read(network, source[row:row + 1, :length])
        assert torch.equal(states[row:row + 1, :length], alone)
        assert torch.equal(keys_values[:, :, row:row + 1, :, :length], own)


def test_states_that_are_a_part_of_others(tiny: Tiny) -> None:
    """A masked model's decoder does not see the first of them."""
    network = tiny()
    memory = network.encode(sources(6, 6))
    found = network.start(Memory(memory.states[:, 1:], None)).source
    assert torch.equal(found, network.start(memory).source[..., 1:, :])


def test_many_pieces_are_left_to_torch(tiny: Tiny) -> None:
    network = tiny()
    with patch.object(bounds, "of", lambda width: bounds.Bounds(tokens=0, pieces=10, row=6)):
        read(network, sources(5, 5))
        read(network, sources(6))
        with patch.object(encoder, "encode", None), patch.object(encoder, "project_source", None):
            network.start(network.encode(sources(7)))
            network.start(network.encode(sources(6, 6)))


@pytest.mark.parametrize(("width", "widest"), [(16, 15), (18, 20), (16, 16)])
def test_other_shapes_are_left_to_torch(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, width: int, widest: int) -> None:
    monkeypatch.setattr(packing, "_WIDEST", widest)
    network = tiny(width=width)
    packs = packs_of(network)
    assert (packs.encoder is not None) == (packs.source is not None) == (width == widest)


def test_other_inner_widths_are_left_to_torch(tiny: Tiny) -> None:
    network = tiny(feed_forward=34)
    assert packs_of(network).encoder is None


def test_half_precision_is_left_to_torch(tiny: Tiny) -> None:
    network = tiny(dtype=torch.bfloat16)
    assert not isinstance(network, Compiled)
    assert network.start(network.encode(sources(5))).source.dtype == torch.bfloat16


def test_without_layers_it_is_left_to_torch(tiny: Tiny) -> None:
    network = tiny(encoder_layers=0)
    assert packs_of(network).encoder is None
    torch.testing.assert_close(network.encode(sources(5, 3)).states, network._encoder_states(sources(5, 3)).states)


def test_training_mode_drops_as_before(tiny: Tiny) -> None:
    network = tiny(dropout=0.3).train()
    assert not torch.equal(network.encode(sources(5)).states, network.encode(sources(5)).states)


@pytest.mark.parametrize("tokens", [torch.zeros(1, 0, dtype=torch.long), torch.zeros(0, 3, dtype=torch.long)])
def test_nothing(tiny: Tiny, tokens: Tensor) -> None:
    assert tiny().encode(tokens).states.shape == (*tokens.shape, 16)


@pytest.mark.parametrize("token", [-1, 20])
def test_what_is_no_piece_is_refused(tiny: Tiny, token: int) -> None:
    with pytest.raises(IndexError, match="index out of range"):
        tiny().encode(torch.tensor([[7, token]]))


def test_more_pieces_than_places_are_refused(tiny: Tiny) -> None:
    network = tiny(max_length=8)
    assert network.encode(sources(8)).states.shape == (1, 8, 16)
    with pytest.raises(RuntimeError, match="size of tensor"):
        network.encode(sources(9))


@pytest.mark.parametrize("ties", TIES)
def test_it_sees_every_change_of_the_weights(tiny: Tiny, ties: str) -> None:
    network, other, source = tiny(tied_embeddings=ties), tiny(tied_embeddings=ties, seed=3), sources(4, 7)
    before = read(network, source)
    network.load_state_dict(other.state_dict())
    for found, expected, old in zip(read(network.eval(), source), read(other, source), before, strict=True):
        assert torch.equal(found, expected) and not torch.allclose(found, old)
