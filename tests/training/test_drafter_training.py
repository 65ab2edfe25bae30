"""The drafter family in training: it learns what its verifier predicts, which never learns, and the commands run it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from acceptance import assert_rounding_costs_little
from drafters import VOCABULARY, make_batch, make_module, save_verifier
from fitting import train
from sentences import sources

from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.datamodule import Batch
from pipeline.decoding import greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.model.checkpoint import unique_weights
from pipeline.model.transformer import Transformer

LIMIT = LengthLimit(2.0, 10, 15)
PREFIXES = pytest.mark.parametrize("prefix", ["causal", "bidirectional"])


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[..., Transformer]) -> str:
    return save_verifier(tmp_path_factory.mktemp("verifier") / "ar", tiny)


@PREFIXES
def test_what_the_verifier_predicts_is_learnt_and_drafted(verifier: str, prefix: str) -> None:
    """Learnt by heart from the verifier's own translations, whole blocks are accepted; the verifier stays as it was."""
    module = make_module(verifier, block=6, drafting={"prefix": prefix, "glancing": (0.5, 0.0)})
    before = {name: weight.clone() for name, weight in unique_weights(module.network.verifier).items()}
    source = sources(*range(2, 12), vocabulary=VOCABULARY.source)
    expected = greedy.search(module.network.verifier, source, LIMIT)
    target, lengths = expected.tokens[:, 0, :15], expected.lengths[:, 0].clamp(max=15)
    batch = Batch(torch.arange(len(source)), source, target, lengths, 1 / 50)
    untrained = module.eval().search(batch.source, LIMIT).calls
    train(module.train(), 120 if prefix == "causal" else 240, batch)
    assert module.network.verifier.training is False
    assert all(torch.equal(weight, before[name]) for name, weight in unique_weights(module.network.verifier).items())
    found = module.search(batch.source, LIMIT)
    assert torch.equal(found.tokens, expected.tokens)
    assert found.calls.sum() < 0.5 * untrained.sum()
    assert_rounding_costs_little(lambda row: module.search(row, LIMIT), module.network, source,
                                 least=4 if prefix == "causal" else 3)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_same_seed_gives_the_same_bits(verifier: str, dropout: float) -> None:
    """The random numbers of a step are those of dropout, of prefixes and of what is shown."""
    first, again, other = (
        train(make_module(verifier, seed, drafting={"glancing": (0.5, 0.5)}, dropout=dropout), 6, make_batch(2, 5, 8))
        for seed in (1, 1, 2))
    weights = [module.network.state_dict() for module in (first, again, other)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    assert any(not torch.equal(weight, weights[2][name]) for name, weight in weights[0].items())


def test_a_verifier_of_another_vocabulary(verifier: str) -> None:
    with pytest.raises(PipelineError, match="trained with vocabulary toy, but other is in use"):
        make_module(verifier, digest="other")


# The commands.

@pytest.fixture
def drafter_family(workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> Path:
    change_params({
        "families": {"drafter": {"kind": "drafter", "network": {"encoder_layers": 0}, "decoders": ["gad", "greedy_too"],
                                 "drafting": {"verifier": "teacher", "block": 4}}},
        "students": {"drafter": "teacher"}, "systems": ["teacher", "interleaved", "drafter"],
        "decoders": {"gad": {"algorithm": "gad"}, "greedy_too": {"algorithm": "gad", "block": 1},
                     "iad": {"algorithm": "iad"}}})
    return workspace


def test_from_fit_to_translate(drafter_family: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = ["--trainer.accelerator", "cpu"]
    assert main(["fit", "--family", "drafter", *device, "--in-place"]) == 0
    assert "initialised anew: chain." in capsys.readouterr().out
    config = json.loads((layout.checkpoint("drafter") / "config.json").read_text())
    assert (config["kind"], config["block"], config["verifier"]["kind"]) == ("drafter", 4, "ordered")
    assert main(["test", "--family", "teacher", "--decoder", "greedy", *device, "--in-place"]) == 0
    assert main(["test", "--family", "drafter", *device, "--in-place"]) == 0
    texts = {}
    for family, decoder in (("teacher", "greedy"), ("drafter", "gad"), ("drafter", "greedy_too")):
        lines = (layout.HYPOTHESES / family / f"{decoder}.jsonl").read_text().splitlines()
        texts[decoder] = [json.loads(line)["hypothesis"] for line in lines]
    assert len(texts["greedy"]) == 24 and texts["gad"] == texts["greedy_too"] == texts["greedy"]

    capsys.readouterr()
    for family, decoder in (("teacher", "greedy"), ("drafter", "gad"), ("teacher", "iad")):
        options = ["--family", family, "--decoder", decoder, "--device", "cpu"]
        assert main(["translate", *options, "--input", str(layout.CORPUS / "test.source")]) == 0
    one, two, three = (lines for lines in zip(*[iter(capsys.readouterr().out.splitlines())] * 24, strict=True))
    assert one == two == three == tuple(texts["greedy"])


def test_a_missing_verifier_is_said_in_one_line(drafter_family: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = layout.checkpoint("teacher") / "config.json"
    config.unlink()
    assert main(["fit", "--family", "drafter", "--trainer.accelerator", "cpu", "--in-place"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {config}: not found")
