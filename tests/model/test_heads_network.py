"""Heads on a model that is not trained any further: what they compute, what they leave alone, what is stored."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lattices import lattice
from sentences import sources

from pipeline.errors import PipelineError
from pipeline.model.checkpoint import load_checkpoint, save_checkpoint, unique_weights
from pipeline.model.heads import BlockwiseHeads
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.settings import TIES, VocabularySettings
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
VOCABULARY = VocabularySettings(20, 20, "c0ffee" * 10 + "1234")
HEADS = ("heads_bias", "heads_inner.bias", "heads_inner.weight", "heads_outer")


CHAIN = ("chain.of_previous.weight", "chain.of_state.bias", "chain.of_state.weight", "chain.outer.weight")


def with_heads(verifier: Transformer, block: int = 4, chained: bool = False) -> BlockwiseHeads:
    torch.manual_seed(6)
    network = BlockwiseHeads(verifier.settings, 20, 20, verifier.order, block, chained)
    network.to(verifier.projection.weight.dtype)
    for name in (*HEADS, *(CHAIN if chained else ())):
        torch.nn.init.normal_(network.get_parameter(name), std=0.3)
    network.copy_verifier(verifier)
    return network


@pytest.mark.parametrize("block", [2, 3, 5])
def test_heads_one_by_one(tiny: Tiny, block: int) -> None:
    network = with_heads(tiny(), block)
    D, F = network.settings.width, network.settings.feed_forward
    hidden = torch.randn(7, D, dtype=torch.float64)
    found = network.head_states(hidden, block - 1)
    assert found.shape == (7, block - 1, D)
    for j in range(block - 1):
        units, outputs = slice(j * F, (j + 1) * F), slice(j * D, (j + 1) * D)
        for row, state in enumerate(hidden):
            inner = (network.heads_inner.weight[units] @ state + network.heads_inner.bias[units]).clamp(min=0)
            moved = state + network.heads_outer[j].T @ inner + network.heads_bias[outputs]
            assert torch.allclose(found[row, j], moved, atol=1e-12)
        assert torch.allclose(network.head_states(hidden, j + 1), found[:, :j + 1], atol=1e-12)  # the first heads alone


def test_a_fresh_head_says_what_the_model_says(tiny: Tiny) -> None:
    verifier = tiny()
    network = BlockwiseHeads(verifier.settings, 20, 20, verifier.order, 3, chained=True).double()
    hidden = torch.randn(2, verifier.settings.width, dtype=torch.float64)
    states = network.head_states(hidden, 2)
    assert torch.equal(states, hidden.unsqueeze(1).expand(-1, 2, -1))
    assert torch.equal(network.draft_logits(states[:, 0], torch.tensor([8, 9])), network.projection(hidden))


@pytest.mark.parametrize("order", ["left_to_right", "right_to_left"])
@pytest.mark.parametrize("chained", [False, True])
def test_the_model_says_what_it_said(tiny: Tiny, order: str, chained: bool) -> None:
    verifier, source = tiny(order, dropout=0.1), sources(5, 3)
    network = with_heads(verifier, chained=chained).train()
    assert not any(module.training for module in network.modules())
    arranged = torch.tensor([[9, 8, 7, 3], [11, 3, 0, 0]])
    assert torch.equal(network(source, arranged), verifier(source, arranged))
    assert network.verifier is network and network.order == verifier.order
    trained = sorted(name for name, weight in network.named_parameters() if weight.requires_grad)
    assert trained == sorted((*HEADS, *(CHAIN if chained else ())))


@pytest.mark.parametrize(("changes", "message"), [
    ({"order": "interleaved"}, "verifier: a ordered model in the order interleaved cannot verify drafts"),
    ({"vocabulary": 24}, "verifier: it has 24 source and 24 target pieces"),
    ({"feed_forward": 64}, "network.feed_forward: 32, but the verifier of these heads has 64; a family of kind heads"),
    ({"tied_embeddings": "all"}, "network.tied_embeddings: none, but the verifier of these heads has all"),
])
def test_a_model_that_does_not_fit(tiny: Tiny, changes: dict[str, object], message: str) -> None:
    verifier = tiny()
    network = BlockwiseHeads(verifier.settings, 20, 20, verifier.order, 3, chained=False)
    with pytest.raises(PipelineError, match=message):
        network.copy_verifier(tiny(**changes))
    network.copy_verifier(tiny(dropout=0.3, attention_dropout=0.2))  # frozen layers drop nothing


def test_heads_have_something_to_guess(tiny: Tiny) -> None:
    with pytest.raises(PipelineError, match="block: 1 leaves no word to predict; heads need a block of at least 2"):
        BlockwiseHeads(tiny().settings, 20, 20, tiny().order, 1, chained=False)


# Checkpoints.

@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("order", ["left_to_right", "right_to_left"])
@pytest.mark.parametrize("chained", [False, True])
def test_heads_round_trip(tmp_path: Path, tiny: Tiny, ties: str, order: str, chained: bool) -> None:
    network = with_heads(tiny(order, dtype=torch.float32, tied_embeddings=ties), chained=chained)
    save_checkpoint(tmp_path / "model", network, VOCABULARY, unique_weights(network), {"family": "toy"})
    loaded, config = load_checkpoint(tmp_path / "model", VOCABULARY.digest)
    assert isinstance(loaded, BlockwiseHeads) and not loaded.training
    assert (config["kind"], config["block"], config["order"]["name"]) == ("heads", 4, order)
    assert (loaded.settings, loaded.order, loaded.block, loaded.chained) == (
        network.settings, network.order, 4, chained)
    for (name, weight), (other_name, other) in zip(loaded.named_parameters(), network.named_parameters(), strict=True):
        assert name == other_name and torch.equal(weight, other)
    assert [name for name, weight in loaded.named_parameters() if weight.requires_grad] == [
        name for name, weight in network.named_parameters() if weight.requires_grad]


@pytest.mark.parametrize("verified", [False, True])
def test_a_lattice_round_trip(tmp_path: Path, tiny: Tiny, verified: bool) -> None:
    network = lattice(dtype=torch.float32)
    verifier = tiny(dtype=torch.float32, width=24, dropout=0.1)
    if verified:
        network.attach_verifier(verifier)
        assert not any(module.training for module in network.train().verifier.modules())  # type: ignore[union-attr]
    save_checkpoint(tmp_path / "model", network, VOCABULARY, unique_weights(network), {})
    loaded, config = load_checkpoint(tmp_path / "model", VOCABULARY.digest)
    assert isinstance(loaded, LatticeTransformer) and ("verifier" in config) == verified
    assert (loaded.verifier is not None) == verified
    assert any(name.startswith("verifier.") for name in unique_weights(loaded)) == verified
    if loaded.verifier is not None:
        assert config["verifier"]["network"]["width"] == 24 and not loaded.verifier.training
        arranged = torch.tensor([[9, 8, 7, 3]])
        assert torch.allclose(loaded.verifier(sources(5), arranged), verifier(sources(5), arranged), atol=1e-6)
        assert not any(weight.requires_grad for weight in loaded.verifier.parameters())


@pytest.mark.parametrize(("changes", "message"), [
    ({"order": "right_to_left"}, "verifier: it generates in the order right_to_left, but a lattice drafts from left"),
    ({"order": "interleaved"}, "cannot verify drafts"),
    ({"vocabulary": 24}, "verifier: it has 24 source and 24 target pieces"),
])
def test_a_verifier_that_does_not_fit_a_lattice(tiny: Tiny, changes: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        lattice().attach_verifier(tiny(**changes))
