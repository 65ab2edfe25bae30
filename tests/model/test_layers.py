"""Dropout, positions and the settings of a network."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import PipelineError
from pipeline.model.layers import attend, dropout, sinusoids
from pipeline.model.settings import NetworkSettings


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9, 0.999995])
def test_dropout_zeroes_its_share_and_scales_the_rest(probability: float) -> None:
    torch.manual_seed(5)
    entries = 200_000
    dropped = dropout(torch.full((entries,), 3.0, dtype=torch.float64), probability)
    kept = dropped[dropped != 0]
    rounded = min(round(probability * 2**16), 2**16 - 1) / 2**16  # the probability in use, see `dropout`
    assert torch.equal(kept, torch.full_like(kept, 3.0 / (1 - rounded)))
    deviation = (probability * (1 - probability) / entries) ** 0.5
    assert abs(1 - len(kept) / entries - probability) < 4 * deviation


def test_dropout_decides_for_every_entry_alone() -> None:
    torch.manual_seed(5)
    zeroed = (dropout(torch.ones(400_000), 0.5) == 0).view(-1, 4).double()
    # Four entries share 64 random bits: none may say anything about another.
    correlation = torch.corrcoef(zeroed.T) - torch.eye(4)
    assert correlation.abs().max() < 0.015
    followers = torch.corrcoef(torch.stack([zeroed[:-1, 3], zeroed[1:, 0]]))[0, 1]
    assert followers.abs() < 0.015


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (2, 3, 5), (0, 4)])
def test_dropout_keeps_any_shape_and_passes_the_gradient(shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, requires_grad=True)
    dropped = dropout(x, 0.5)
    assert dropped.shape == x.shape
    dropped.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, dropped.detach())


def test_dropout_of_nothing_is_the_identity() -> None:
    x = torch.ones(3)
    assert dropout(x, 0.0) is x


def test_dropout_repeats_with_its_seed() -> None:
    torch.manual_seed(9)
    first = dropout(torch.ones(1001), 0.4)
    torch.manual_seed(9)
    assert torch.equal(first, dropout(torch.ones(1001), 0.4))


@given(start=st.integers(-40, 40), other=st.integers(-40, 40), distance=st.integers(0, 20))
def test_sinusoids_know_distances_on_both_sides_of_zero(start: int, other: int, distance: int) -> None:
    table = sinusoids(torch.tensor([start, start + distance, other, other + distance]).double(), 32)
    assert torch.allclose(table[0] @ table[1], table[2] @ table[3], atol=1e-4)


def test_sinusoids_by_hand() -> None:
    # Width 4: frequencies 1 and 1/100; sines first, then cosines.
    expected = [[0.0, 0.0, 1.0, 1.0], [0.8414710, 0.0099998, 0.5403023, 0.9999500],
                [-0.8414710, -0.0099998, 0.5403023, 0.9999500]]
    assert torch.allclose(sinusoids(torch.tensor([0, 1, -1]), 4), torch.tensor(expected), atol=1e-6)


@pytest.mark.parametrize(("changes", "message"), [
    ({"norm": "sandwich"}, "norm is 'sandwich'; choose one of pre, post"),
    ({"tied_embeddings": "source"}, "tied_embeddings is 'source'; choose one of all"),
    ({"positions": "rotary"}, "positions is 'rotary'; choose one of sinusoidal"),
    ({"activation": "tanh"}, "activation is 'tanh'; choose one of relu"),
    ({"width": 0}, "width: 0 must be at least 1"),
    ({"width": 20, "heads": 3}, "network.width: 20 must be even and divisible by network.heads = 3"),
    ({"width": 9, "heads": 3}, "network.width: 9 must be even"),
    ({"decoder_layers": 0}, "decoder_layers: 0 must be at least 1"),
    ({"max_length": -1}, "max_length: -1 must be at least 1"),
    ({"dropout": 1.0}, "dropout: 1.0 must be at least 0 and below 1"),
    ({"attention_dropout": -0.1}, "attention_dropout: -0.1 must be at least 0 and below 1"),
])
def test_impossible_settings(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        NetworkSettings(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("masked", [True, False])
def test_attention_that_trains_in_bfloat16_is_that_of_other_types(masked: bool) -> None:
    """Batched products stand in for torch's kernel, whose gradient is slow in this type."""
    random = torch.Generator().manual_seed(1)
    parts = [torch.randn(2, 3, 5, 4, generator=random) for _ in range(3)]
    mask = torch.ones(5, 5, dtype=torch.bool).tril() if masked else None
    found = []
    for kind in (torch.float64, torch.bfloat16):
        given = [part.to(kind).requires_grad_() for part in parts]
        out = attend(*given, mask)
        out.square().sum().backward()
        found.append([one.double() for one in (out, *(part.grad for part in given if part.grad is not None))])
    assert len(found[1]) == 4
    for exact, rounded in zip(*found, strict=True):
        torch.testing.assert_close(rounded, exact, atol=0.1, rtol=0.05)
    torch.manual_seed(1)
    dropped = attend(*(part.bfloat16().requires_grad_() for part in parts), mask, 0.5)
    assert not torch.equal(dropped, found[1][0].bfloat16())
