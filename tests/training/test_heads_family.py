"""The family of heads: which words they learn to say, and that nothing else moves. Lattices that draft."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as lightning
import torch
from acceptance import assert_rounding_costs_little
from hypothesis import given
from hypothesis import strategies as st
from sentences import sources

from pipeline import layout
from pipeline.blocks import build
from pipeline.cli import main
from pipeline.corpus.datamodule import Batch
from pipeline.decoding import blockwise, greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.families.heads import HeadsModule, tokens_ahead
from pipeline.families.settings import FamilySettings, Labels, OptimisationSettings
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.settings import VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

Tiny = Callable[..., Transformer]
VOCABULARY = VocabularySettings(20, 20, "toy")
LIMIT = LengthLimit(1.5, 4, 20)
SHAPE: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.2}


@pytest.fixture
def verifier(tiny: Tiny, tmp_path: Path) -> Path:
    """A checkpoint to put heads on."""
    network = tiny(dtype=torch.float32, **SHAPE)
    save_checkpoint(tmp_path / "ar", network, VOCABULARY, unique_weights(network), {})
    return tmp_path / "ar"


@pytest.fixture
def make_module(tiny: Tiny, verifier: Path) -> Callable[..., HeadsModule]:
    """A function that puts heads on it: `make_module(block=3)`."""
    def make(block: int = 3, chained: bool = False, labels: Labels = "verifier") -> HeadsModule:
        torch.manual_seed(4)
        return HeadsModule(tiny(**SHAPE).settings, OptimisationSettings(learning_rate=0.01, warmup_steps=5), VOCABULARY,
                           str(verifier), block, chained, labels)
    return make


def make_batch(*lengths: int) -> Batch:
    generator = torch.Generator().manual_seed(8)
    target = torch.randint(7, 20, (len(lengths), max(lengths)), generator=generator)
    target = target.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1), PAD)
    return Batch(torch.arange(len(lengths)), sources(*[2 + length for length in lengths]), target,
                 torch.tensor(lengths), 1 / 50)


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4), heads=st.integers(1, 8))
def test_heads_predict_the_words_behind_the_next_one(lengths: list[int], heads: int) -> None:
    T = max(lengths) + 1
    slots = [[*range(10, 10 + length), EOS] + [PAD] * (T - length - 1) for length in lengths]
    found = tokens_ahead(torch.tensor(slots), heads)
    assert found.shape == (len(lengths), T, heads)
    for row, slot, head in ((row, slot, head) for row in range(len(lengths)) for slot in range(T)
                            for head in range(heads)):
        place = slot + 1 + head  # slot t is predicted by state t, and head j of this state predicts slot t + 1 + j
        assert found[row, slot, head] == (slots[row][place] if place < T else PAD)


@torch.no_grad()
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("chained", "labels"), [(False, "verifier"), (True, "verifier"), (True, "data")])
def test_the_loss_by_hand(make_module: Callable[..., HeadsModule], smoothing: float, chained: bool,
                          labels: Labels) -> None:
    module, batch = make_module(chained=chained, labels=labels).double(), make_batch(5, 0, 1, 3)
    torch.nn.init.normal_(module.network.heads_outer, std=0.3)
    if module.network.chain is not None:
        torch.nn.init.normal_(module.network.chain.outer.weight, std=0.3)
    total, count = 0.0, 0
    for row, length in enumerate(batch.target_lengths.tolist()):
        source = batch.source[row][batch.source[row] != PAD].unsqueeze(0)
        slots = [*batch.target[row, :length].tolist(), EOS]
        hidden = module.network.hidden(source, torch.tensor([slots]))[0]
        answers = torch.tensor(slots)
        if labels == "verifier":
            answers = module.network(source, answers.unsqueeze(0))[0].argmax(1)
        for t, states in enumerate(module.network.head_states(hidden, 2)):
            for j, state in enumerate(states):
                if t + 1 + j <= length and answers[t + 1 + j] != PAD:  # which a random verifier may predict
                    before = torch.tensor([slots[t + j]])
                    log_probabilities = module.network.draft_logits(state.unsqueeze(0), before)[0].log_softmax(0)
                    total -= (1 - smoothing) * log_probabilities[answers[t + 1 + j]].item()
                    total -= smoothing * log_probabilities.mean().item()
                    count += 1
    loss, predicted = module.loss(batch, smoothing)
    assert loss.item() == pytest.approx(total, abs=1e-9) and predicted.item() == count


def test_empty_targets_leave_heads_nothing_to_say(make_module: Callable[..., HeadsModule]) -> None:
    loss, count = make_module().loss(make_batch(0, 0), 0.1)
    loss.backward()
    assert loss.item() == 0 and count == 1


@pytest.mark.parametrize("chained", [False, True])
def test_training_saves_calls_and_moves_nothing_else(make_module: Callable[..., HeadsModule], tiny: Tiny,
                                                     chained: bool) -> None:
    """Heads learn by heart what the model predicts, so that its text is the same in fewer calls."""
    verifier, source = tiny(dtype=torch.float32, **SHAPE), sources(*range(3, 9))
    greedily = greedy.search(verifier, source, LIMIT)
    batch = Batch(torch.arange(6), source, greedily.tokens[:, 0], greedily.lengths[:, 0], 1 / 50)
    module = make_module(chained=chained)
    untrained = module.search(source, LIMIT)
    before = {name: weight.clone() for name, weight in unique_weights(module.network).items()}
    trainer = lightning.Trainer(max_steps=80, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, train_dataloaders=torch.utils.data.DataLoader([batch] * 80, batch_size=None))
    moved = {name for name, weight in unique_weights(module.network).items() if not torch.equal(weight, before[name])}
    chain = {name for name in before if name.startswith("chain.")}
    assert bool(chain) == chained
    assert moved == {"heads_bias", "heads_inner.bias", "heads_inner.weight", "heads_outer", *chain}
    found = module.search(source, LIMIT)
    assert torch.equal(found.tokens, greedily.tokens) and torch.equal(found.lengths, greedily.lengths)
    assert untrained.calls.sum() > found.calls.sum() and found.calls.sum() <= 0.6 * greedily.calls.sum()
    assert torch.equal(blockwise.search(module.network, source, LIMIT, blockwise.Settings(1)).calls, greedily.calls)
    assert_rounding_costs_little(lambda row: module.search(row, LIMIT), module.network, source, least=1.9)


@pytest.mark.parametrize(("kind", "drafting", "message"), [
    ("ordered", {}, "drafting: a family of kind ordered has none; remove it"),
    ("heads", {"stride": 2}, "drafting.stride: a family of kind heads has none; remove it"),
    ("heads", {"prefix": "bidirectional"}, "drafting.prefix: a family of kind heads has none; remove it"),
    ("heads", {"block": 1}, "drafting.block: 1 leaves no token to draft; heads need 2 or more"),
    ("lattice", {"block": 4}, "drafting.block: a family of kind lattice has none; remove it"),
    ("lattice", {"glancing": (0.1, 0.1)}, "drafting.glancing: a family of kind lattice has none; remove it"),
])
def test_what_a_kind_does_not_heed(kind: str, drafting: dict[str, Any], message: str) -> None:
    block = {"kind": kind, "network": {}, "training": {}, "optimisation": {},
             "drafting": {"verifier": "ar", **drafting}}
    with pytest.raises(PipelineError, match=message):
        build(FamilySettings, block, "families.helper")


# The commands.

def test_from_fit_to_test(workspace: Path, change_params: Callable[[dict[str, Any]], None],
                          capsys: pytest.CaptureFixture[str]) -> None:
    change_params({
        "families": {"heads": {"kind": "heads", "drafting": {"verifier": "teacher", "block": 3},
                               "decoders": ["blockwise"]}},
        "students": {"heads": "teacher"}, "systems": ["teacher", "interleaved", "heads"],
        "decoders": {"blockwise": {"algorithm": "blockwise"}}})
    assert main(["fit", "--family", "heads", "--trainer.accelerator", "cpu", "--in-place"]) == 0
    config = json.loads((layout.checkpoint("heads") / "config.json").read_text())
    assert (config["kind"], config["block"], config["order"]["name"]) == ("heads", 3, "left_to_right")

    assert main(["test", "--family", "teacher", "--decoder", "greedy"]) == 0
    shutil.rmtree(layout.checkpoint("teacher"))  # a checkpoint is all that is needed
    assert main(["test", "--family", "heads", "--trainer.accelerator", "cpu", "--in-place"]) == 0
    greedy_row, row = (json.loads((layout.REPORTS / f"quality/{family}.json").read_text())["decoders"][decoder]
                       for family, decoder in (("teacher", "greedy"), ("heads", "blockwise")))
    assert row["bleu"] == greedy_row["bleu"] and row["calls"] <= greedy_row["calls"]

    capsys.readouterr()
    assert main(["fit", "--family", "heads", "--trainer.accelerator", "cpu", "--in-place"]) == 2
    assert "checkpoints/teacher/config.json: not found" in capsys.readouterr().err.splitlines()[-1]


def test_a_lattice_that_drafts(lattice_family: Path, change_params: Callable[[dict[str, Any]], None]) -> None:
    change_params({
        "families": {"lattice": {"kind": "lattice", "network": {"decoder_layers": 2},
                                 "drafting": {"verifier": "teacher"}, "decoders": ["lattice_gad", "counts_gad"]}},
        "lattices": {"lattice": "teacher"}, "systems": ["teacher", "interleaved", "lattice"],
        "decoders": {"lattice_gad": {"algorithm": "lattice_gad", "candidates": 8},
                     "counts_gad": {"algorithm": "counts_gad"}, "lattice8": {"algorithm": "lattice", "candidates": 8}},
        "analyses": {"decoder": "lattice8"}})
    assert main(["fit", "--family", "lattice", "--trainer.accelerator", "cpu", "--in-place"]) == 0
    assert main(["test", "--family", "teacher", "--decoder", "greedy"]) == 0
    shutil.rmtree(layout.checkpoint("teacher"))
    assert main(["test", "--family", "lattice", "--trainer.accelerator", "cpu", "--in-place"]) == 0
    wanted, found = (json.loads((layout.REPORTS / f"quality/{family}.json").read_text())["decoders"]
                     for family in ("teacher", "lattice"))
    for row in found.values():
        assert row["bleu"] == wanted["greedy"]["bleu"] and row["calls"] <= wanted["greedy"]["calls"]
