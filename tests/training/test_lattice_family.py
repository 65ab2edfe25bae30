"""The lattice family: what its words see, what its loss adds up, and that it learns what search then returns."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import train
from lattices import counted
from sentences import sources
from torch import Tensor

from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.datamodule import Batch
from pipeline.decoding import lattice
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.families.lattice import SELF_NORMALISATION, LatticeModule, markov_mask
from pipeline.families.settings import OptimisationSettings
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.vocabulary import EOS, PAD

VOCABULARY = 40
LIMIT = LengthLimit(2.0, 10, 15)
CPU = torch.device("cpu")


def make_batch(*lengths: int) -> Batch:
    """Random pairs whose targets have these lengths, each the longer source by one."""
    generator = torch.Generator().manual_seed(8)
    target = torch.randint(7, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    counts = torch.tensor(lengths)
    target = target.masked_fill(torch.arange(max(lengths)) >= counts.unsqueeze(1), PAD)
    return Batch(torch.arange(len(lengths)), sources(*[2 + length for length in lengths], vocabulary=VOCABULARY),
                 target, counts, 1 / 50)


TOYS = make_batch(1, 2, 3, 5, 5, 6, 8, 8)


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The counts of the toys, each word linked with the source word in its place."""
    path = tmp_path_factory.mktemp("counts") / "toys.safetensors"
    corpus = [(source[:length + 1].tolist(), target[:length].tolist(), list(range(length)))
              for source, target, length in zip(TOYS.source, TOYS.target, TOYS.target_lengths.tolist(), strict=True)]
    counted(corpus, vocabulary=VOCABULARY, digest="toy").save(path)
    return str(path)


def make_module(counts: str, seed: int = 1, digest: str = "toy", **changes: Any) -> LatticeModule:
    torch.manual_seed(4)
    network = NetworkSettings(**{"width": 32, "heads": 2, "feed_forward": 64, "encoder_layers": 1, "decoder_layers": 1,
                                 "dropout": 0.0, "max_length": 16, **changes})
    optimisation = OptimisationSettings(learning_rate=0.01, warmup_steps=20, label_smoothing=0.0)
    return LatticeModule(network, optimisation, VocabularySettings(VOCABULARY, VOCABULARY, digest), counts, seed)


# What a slot sees.

def chunked(*sizes: int) -> Tensor:
    """Every slot sees its chunk up to itself."""
    return torch.block_diag(*(torch.ones(size, size).tril() for size in sizes)).bool()


CHUNKS = {1: ((1,), (1,), (1,)), 2: ((1, 1), (2,), (1, 1)), 5: ((1, 1, 1, 1, 1), (2, 2, 1), (1, 2, 2)),
          6: ((1, 1, 1, 1, 1, 1), (2, 2, 2), (1, 2, 2, 1))}
"""Single slots, pairs from the first slot on, and pairs from the second slot on."""


@pytest.mark.parametrize("slots", CHUNKS)
def test_slots_see_their_chunk(slots: int) -> None:
    kinds = [chunked(*sizes) for sizes in CHUNKS[slots]]
    torch.manual_seed(1)
    for trigrams, possible in ((0.0, kinds[:1]), (1.0, kinds[1:]), (0.5, kinds)):
        mask = markov_mask(64, slots, trigrams, CPU)
        assert mask.shape == (64, 1, slots, slots) and mask.dtype == torch.bool
        found = {tuple(one.flatten().tolist()) for one in mask}
        assert found == {tuple(kind.flatten().tolist()) for kind in possible}


def test_how_many_rows_are_of_each_kind() -> None:
    """60,000 draws: six standard deviations are allowed."""
    draws = 60_000
    torch.manual_seed(2)
    mask = markov_mask(draws, 5, 0.5, CPU).squeeze(1)
    for sizes, share in zip(CHUNKS[5], (1 / 2, 1 / 4, 1 / 4), strict=True):
        found = int((mask == chunked(*sizes)).all(2).all(1).sum())
        assert found == pytest.approx(draws * share, abs=6 * math.sqrt(draws * share * (1 - share)))


def test_deep_layers_see_no_farther(counts: str) -> None:
    """Not even through what their neighbours see."""
    network = make_module(counts, decoder_layers=3).double().eval().network
    target = TOYS.target[-1:]
    for sizes in ((1,) * 9, (2, 2, 2, 2, 1), (1, 2, 2, 2, 2)):
        mask = chunked(*sizes)
        before = network.hidden_after(TOYS.source[-1:], target, mask.view(1, 1, 9, 9))
        for place in range(8):
            other = target.clone()
            other[0, place] = 7 + (target[0, place] - 6) % 30
            after = network.hidden_after(TOYS.source[-1:], other, mask.view(1, 1, 9, 9))
            assert torch.equal((after != before).any(2)[0], mask[:, place + 1])  # words come after the start symbol


# The loss.

def loss_by_hand(module: LatticeModule, batch: Batch, chunks: list[tuple[int, ...]], smoothing: float,
                 normalisation: float) -> float:
    """Sentence by sentence, slot by slot."""
    total, network = 0.0, module.network
    for row, (length, sizes) in enumerate(zip(batch.target_lengths.tolist(), chunks, strict=True)):
        source, target = batch.source[row][batch.source[row] != PAD].unsqueeze(0), batch.target[row, :length]
        mask = chunked(*sizes)[:length + 1, :length + 1].view(1, 1, length + 1, length + 1)
        states = network.hidden_after(source, target.unsqueeze(0), mask)[0]
        for state, wanted in zip(states, [*target.tolist(), EOS], strict=True):
            logits = network.projection(state)
            sum_of_all = logits.exp().sum().log().item()
            total += sum_of_all - (1 - smoothing) * logits[wanted].item() - smoothing * logits.mean().item()
            total += normalisation * (sum_of_all - network.normaliser(state).item()) ** 2
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_by_hand(counts: str, monkeypatch: pytest.MonkeyPatch, smoothing: float) -> None:
    module, batch = make_module(counts, decoder_layers=2).double().train(), make_batch(6, 0, 1, 4)
    torch.nn.init.normal_(module.network.normaliser.weight, std=0.3)
    chunks: list[tuple[int, ...]] = [(1, 2, 2, 2), (1,) * 7, (2, 2, 2, 1), (1, 2, 2, 2)]
    asked = []

    def drawn(rows: int, slots: int, trigrams: float, device: torch.device) -> Tensor:
        asked.append((rows, slots, trigrams))
        return torch.stack([chunked(*sizes) for sizes in chunks]).unsqueeze(1)

    with monkeypatch.context() as patch:
        patch.setattr("pipeline.families.lattice.markov_mask", drawn)
        loss, count = module.loss(batch, smoothing)
    assert asked == [(4, 7, 0.5)] and count.item() == 7 + 1 + 2 + 5
    assert loss.item() == pytest.approx(loss_by_hand(module, batch, chunks, smoothing, SELF_NORMALISATION), abs=1e-9)
    module.eval()
    for _ in range(9):  # validation: one word before each, as in search, and no judgement on the normaliser
        loss, _ = module.loss(batch, 0.0)
        assert loss.item() == pytest.approx(loss_by_hand(module, batch, [(1,) * 7] * 4, 0.0, 0.0), abs=1e-9)


def test_every_weight_learns(counts: str) -> None:
    module = make_module(counts, tied_embeddings="none", positions="learned")
    module.loss(make_batch(5, 8, 3), 0.1)[0].backward()
    for name, parameter in module.network.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_the_normaliser_learns_only_to_be_right(counts: str) -> None:
    module = make_module(counts)
    module.eval().loss(TOYS, 0.1)[0].backward()
    assert module.network.normaliser.weight.grad is None


@pytest.mark.parametrize("lengths", [(0,), (0, 0), (5, 0, 1)])
def test_empty_targets_have_a_loss_and_finite_gradients(counts: str, lengths: tuple[int, ...]) -> None:
    module = make_module(counts)
    loss, count = module.loss(make_batch(*lengths), 0.1)
    loss.backward()
    assert loss.isfinite() and count == sum(lengths) + len(lengths)
    gradients = [parameter.grad for parameter in module.network.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients)


# Training.

def test_what_was_learnt_by_heart_is_translated(counts: str) -> None:
    module = train(make_module(counts), 160, TOYS)
    for settings in (lattice.Settings(candidates=64), lattice.Settings(candidates=5, window=1)):
        found = lattice.search(module.network, TOYS.source, LIMIT, settings)
        assert torch.equal(found.lengths[:, 0], TOYS.target_lengths)
        assert torch.equal(found.tokens[:, 0, :8], TOYS.target)
        # Self-normalised: the sums of logits are log-probabilities, here of near certainty.
        loss = module.loss(TOYS, 0.0)[0].item()
        assert -found.scores.sum().item() == pytest.approx(loss, abs=0.05 * int(TOYS.target_lengths.sum()))
    quick = module.search(TOYS.source, LIMIT)
    assert torch.equal(quick.tokens[:, 0, :8], TOYS.target)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_same_seed_gives_the_same_bits(counts: str, dropout: float) -> None:
    """The random numbers of a step are those of dropout and of the chunks."""
    first, again, other = (train(make_module(counts, seed, dropout=dropout), 6, TOYS) for seed in (1, 1, 2))
    weights = [module.network.state_dict() for module in (first, again, other)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    assert any(not torch.equal(weight, weights[2][name]) for name, weight in weights[0].items())


@pytest.mark.parametrize(("counts_file", "digest", "message"), [
    (None, "other", "toys.safetensors: counted with vocabulary toy, but other is in use"),
    ("gone.safetensors", "toy", "gone.safetensors: not found; run `dvc repro` to produce it again"),
])
def test_counts_that_do_not_fit(counts: str, counts_file: str | None, digest: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make_module(counts_file or counts, digest=digest)


# The commands.

def test_from_fit_to_test(lattice_family: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (layout.checkpoint("lattice") / "weights.safetensors").read_bytes()
    assert main(["fit", "--family", "lattice", "--trainer.accelerator", "cpu", "--in-place"]) == 0
    printed = capsys.readouterr().out
    assert "initialised anew: decoder.1, " in printed and "normaliser.bias, normaliser.weight" in printed
    folder = layout.checkpoint("lattice")
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS", "config.json", "config.yaml", "counts.safetensors", "weights.safetensors"]
    assert (folder / "weights.safetensors").read_bytes() != before
    assert (folder / "counts.safetensors").read_bytes() == layout.counts("raw").read_bytes()
    config = json.loads((folder / "config.json").read_text())
    assert (config["kind"], config["order"], config["training"]["data"]) == ("lattice", None, "raw")

    shutil.rmtree(layout.COUNTS)  # a checkpoint is all that is needed
    assert main(["test", "--family", "lattice", "--trainer.accelerator", "cpu", "--in-place"]) == 0
    report = json.loads((layout.REPORTS / "quality/lattice.json").read_text())
    assert {name: row["calls"] for name, row in report["decoders"].items()} == {"lattice8": 1.0, "counts": 0.0}


@pytest.mark.parametrize("command", ["fit", "test"])
def test_what_is_missing_is_said_in_one_line(lattice_family: Path, capsys: pytest.CaptureFixture[str],
                                             command: str) -> None:
    missing = layout.counts("raw") if command == "fit" else layout.checkpoint("lattice") / "counts.safetensors"
    missing.unlink()
    assert main([command, "--family", "lattice", "--trainer.accelerator", "cpu"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"error: {missing}: not found; run `dvc repro` to produce it again")


def test_a_decoder_of_other_models(lattice_family: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--decoder", "greedy", "--trainer.accelerator", "cpu"]
    assert main(["test", "--family", "lattice", *options]) == 2
    assert "decoders.greedy: greedy searches ordered models, and this one is lattice; choose another decoder" in (
        capsys.readouterr().err.splitlines()[-1])
