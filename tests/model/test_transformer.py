"""The Transformer: training and search read the same function, whatever the order, the norm and the ties."""

from collections.abc import Callable

import pytest
import torch
from orders import EVERY_ORDER, inputs_of
from sentences import sources
from torch import Tensor

from pipeline.errors import PipelineError
from pipeline.model.checkpoint import column_major
from pipeline.model.settings import NORMS, POSITIONS, TIES
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

pytestmark = pytest.mark.usefixtures("engine")

Tiny = Callable[..., Transformer]
EXACT = {"rtol": 0, "atol": 1e-10}
SLOTS = 24
"""A whole number of steps in every order."""


def slots(rows: int, count: int, vocabulary: int = 20) -> Tensor:
    return torch.randint(7, vocabulary, (rows, count), generator=torch.Generator().manual_seed(rows + count))


@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_cached_steps_equal_the_forward_pass(tiny: Tiny, order: str, norm: str, positions: str) -> None:
    """Also with every way to tie embeddings, each together with every norm and every kind of position."""
    place = [*EVERY_ORDER].index(order) + NORMS.index(norm) + POSITIONS.index(positions)
    ties = TIES[place % len(TIES)]
    network = tiny(order, norm=norm, tied_embeddings=ties, positions=positions)
    for lengths, capacity in (((5, 9, 2), 1), (range(1, 21), 64)):  # few rows and little room, many and much
        source, arranged = sources(*lengths), slots(len(lengths), SLOTS)
        whole = network(source, arranged)
        inputs, z = inputs_of(network.order, arranged), network.order.width
        with torch.inference_mode():
            state = network.start(network.encode(source), capacity=capacity)
            steps = [network.step(inputs[:, at:at + z], state) for at in range(0, SLOTS, z)]
        torch.testing.assert_close(torch.cat(steps, 1), whole, **EXACT)


@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("steps", [(3,), (1, 2), (2, 1), (1, 1, 1)])
def test_several_steps_may_be_fed_at_once(tiny: Tiny, order: str, steps: tuple[int, ...]) -> None:
    network = tiny(order)
    z = network.order.width
    source, arranged = sources(4, 7), slots(2, 3 * z)
    state = network.start(network.encode(source))
    blocks = [count * z for count in steps]
    parts = [network.step(part, state) for part in inputs_of(network.order, arranged).split(blocks, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), network(source, arranged), **EXACT)


@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("norm", NORMS)
def test_a_padded_batch_equals_each_row_alone(tiny: Tiny, order: str, norm: str) -> None:
    network = tiny(order, norm=norm)
    source, arranged = sources(3, 11, 1, 6), slots(4, SLOTS)
    together = network(source, arranged)
    for row, ids in enumerate(source):
        alone = network(ids[ids != PAD].unsqueeze(0), arranged[row:row + 1])
        torch.testing.assert_close(together[row:row + 1], alone, **EXACT)


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_slot_sees_what_its_mask_says_of_the_earlier_steps(tiny: Tiny, order: str) -> None:
    network = tiny(order)
    source, arranged, z = sources(6), slots(1, SLOTS), EVERY_ORDER[order].width
    before, mask = network(source, arranged), EVERY_ORDER[order].mask(SLOTS).double()
    # The word of slot t is the input of slot t + z; what sees that input directly or through others depends on t.
    reach = torch.matrix_power(mask, SLOTS) > 0
    for changed in range(SLOTS - z):
        other = arranged.clone()
        other[0, changed] = 7 + (other[0, changed] - 6) % 13  # another word
        difference = (network(source, other) - before).abs().amax((0, 2))
        assert (difference[:(changed // z + 1) * z] == 0).all()
        assert (difference[~reach[:, changed + z]] == 0).all()
        assert (difference[mask[:, changed + z] > 0] > 0).all()


def test_ties_share_one_matrix(tiny: Tiny) -> None:
    for ties, distinct in (("all", 1), ("target", 2), ("none", 3)):
        network = tiny(tied_embeddings=ties)
        matrices = (network.source_embedding.weight, network.target_embedding.weight, network.projection.weight)
        assert len({matrix.data_ptr() for matrix in matrices}) == distinct
        assert (matrices[1].data_ptr() == matrices[2].data_ptr()) == (ties != "none")


def test_two_vocabularies(tiny: Tiny) -> None:
    network = tiny(vocabulary=20, target_vocabulary=31, tied_embeddings="target")
    assert network(sources(4), slots(1, 3)).shape == (1, 3, 31)
    with pytest.raises(PipelineError, match="'all' needs one vocabulary, but the source has 20"):
        tiny(vocabulary=20, target_vocabulary=31, tied_embeddings="all")


def test_fused_matrices_start_as_the_square_ones_they_stand_for(tiny: Tiny) -> None:
    network = tiny(width=64, heads=4, decoder_layers=3)
    glorot = (6 / (64 + 64)) ** 0.5
    for fused in (network.decoder[0].self_attention.queries_keys_values, network.source_keys_values):
        assert fused.bias.eq(0).all()
        for square in fused.weight.split(64):
            assert square.shape == (64, 64)
            assert 0.95 * glorot < square.abs().max() <= glorot
    assert abs(network.target_embedding.weight.std().item() * 64**0.5 - 1) < 0.1


def test_the_longest_target_fits(tiny: Tiny) -> None:
    for order in EVERY_ORDER:
        network = tiny(order, max_length=11)
        longest = EVERY_ORDER[order].slots(10)  # ten words and their end
        assert network(sources(11), slots(1, longest)).shape == (1, longest, 20)


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_dropout_works_in_training_only(tiny: Tiny, order: str) -> None:
    network = tiny(order, dropout=0.3, attention_dropout=0.2)
    source, arranged = sources(5), slots(1, SLOTS)
    assert torch.equal(network(source, arranged), network(source, arranged))
    network.train()
    assert not torch.equal(network(source, arranged), network(source, arranged))


@pytest.mark.parametrize("order", ["left_to_right", "multi_directional4"])
def test_search_sees_every_change_of_the_weights(tiny: Tiny, order: str) -> None:
    """Search reads weights that were gathered once."""
    def steps(network: Transformer) -> Tensor:
        with torch.inference_mode():
            state = network.start(network.encode(source))
            z = network.order.width
            return torch.cat([network.step(part, state) for part in inputs.split(z, dim=1)], 1)

    network, other = tiny(order, positions="learned"), tiny(order, positions="learned", seed=3)
    source, arranged = sources(4, 7), slots(2, SLOTS)
    inputs = inputs_of(network.order, arranged)
    before = steps(network)
    network.load_state_dict(other.state_dict())  # in place
    torch.testing.assert_close(steps(network.eval()), other(source, arranged), **EXACT)
    assert not torch.allclose(steps(network), before)
    torch.testing.assert_close(steps(column_major(network)), other(source, arranged), **EXACT)
    assert steps(network.float()).dtype == torch.float32
    network.double().train()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.9)
    network.eval()
    torch.testing.assert_close(steps(network), network(source, arranged), **EXACT)
