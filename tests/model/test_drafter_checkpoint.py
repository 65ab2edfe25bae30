"""Checkpoints of drafters: they bring their verifier, and whatever does not fit is one clear line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from drafters import drafter
from sentences import sources

from pipeline.checksums import SUMS
from pipeline.errors import PipelineError
from pipeline.model.checkpoint import CONFIG, load_checkpoint, save_checkpoint, unique_weights
from pipeline.model.drafter import DrafterTransformer
from pipeline.model.settings import TIES, VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS

Tiny = Callable[..., Transformer]
VOCABULARY = VocabularySettings(20, 20, "c0ffee" * 10 + "1234")
BLOCK = 4
TARGET = torch.arange(7, 19).view(2, 6)
STARTED = torch.nn.functional.pad(TARGET, (1, 0), value=BOS)


@pytest.mark.parametrize("prefix", ["causal", "bidirectional"])
@pytest.mark.parametrize("encoder_layers", [0, 1])
@pytest.mark.parametrize("ties", TIES)
@torch.no_grad()
def test_round_trip(tmp_path: Path, tiny: Tiny, prefix: str, encoder_layers: int, ties: str) -> None:
    network = drafter(tiny(dtype=torch.float32, tied_embeddings=ties), prefix=prefix, encoder_layers=encoder_layers,
                      block=BLOCK, chained=bool(encoder_layers), tied_embeddings=ties)
    save_checkpoint(tmp_path / "model", network, VOCABULARY, unique_weights(network), {"family": "toy"})
    loaded, config = load_checkpoint(tmp_path / "model", VOCABULARY.digest)
    assert isinstance(loaded, DrafterTransformer) and isinstance(network, type(loaded)) and not loaded.training
    assert (config["kind"], config["block"], config["prefix"], config["order"]) == ("drafter", BLOCK, prefix, None)
    assert (loaded.settings, loaded.verifier.settings, loaded.block, loaded.chained) == (
        network.settings, network.verifier.settings, BLOCK, bool(encoder_layers))
    source = sources(5, 8)
    drafted, judged = [], []
    for one in (network, loaded):
        memory = one.verifier.encode(source)
        states = one.propose(STARTED, 4, BLOCK, one.start(one.draft_memory(source, memory)))
        drafted.append(one.draft_logits(states.flatten(0, 1), TARGET[:, :BLOCK].flatten()))
        judged.append(one.verifier.step(STARTED, one.verifier.start(memory)))
    torch.testing.assert_close(*drafted)
    torch.testing.assert_close(*judged)
    weights = unique_weights(loaded)
    assert all(torch.equal(weights[name], weight) for name, weight in unique_weights(network).items())
    assert weights.keys() == unique_weights(network).keys()


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda config: config.pop("verifier"), "incomplete"),
    (lambda config: config.pop("block"), "incomplete"),
    (lambda config: config.update(prefix="half"), "incomplete"),
    (lambda config: config.update(chained=True), "chain.of_previous.weight is absent in the file"),
    (lambda config: config["verifier"]["network"].update(width=32), "network.width: 16, but the verifier's encoder"),
    (lambda config: config["verifier"]["network"].update(feed_forward=64), "in the file and .* in the model"),
    (lambda config: config["verifier"]["order"].update(name="interleaved", directions=2), "cannot verify drafts"),
    (lambda config: config["vocabulary"].update(digest="0" * 64), "trained with vocabulary 000000000000, but c0ffee"),
])
def test_damage_is_one_clear_line(tmp_path: Path, tiny: Tiny, spoil: Callable[[dict[str, object]], object],
                                  message: str) -> None:
    network = drafter(tiny(dtype=torch.float32))
    save_checkpoint(tmp_path / "model", network, VOCABULARY, unique_weights(network), {})
    config = json.loads((tmp_path / "model" / CONFIG).read_text())
    spoil(config)
    (tmp_path / "model" / CONFIG).write_text(json.dumps(config))
    (tmp_path / "model" / SUMS).unlink()
    with pytest.raises(PipelineError, match=message) as caught:
        load_checkpoint(tmp_path / "model", VOCABULARY.digest)
    assert "\n" not in str(caught.value)
