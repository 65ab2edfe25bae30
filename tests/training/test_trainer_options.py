"""Options of Lightning's trainer that limit batches, and validation sentences that the model cannot take."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import COMMAND, CONFIG, CURVE, WEIGHTS, WORK, Broken, break_at, curve, fit
from torch import Tensor

from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.training.metrics import CorpusBleu

ChangeParams = Callable[[dict[str, Any]], None]
VALIDATE, LIMIT = "--trainer.limit_val_batches", "--trainer.limit_train_batches"


@pytest.mark.parametrize(("options", "candidates", "validated"), [
    ([], {8: True, 12: True}, 8),
    ([VALIDATE, "0"], {8: False, 12: False}, 0),
    ([VALIDATE, "1"], {8: True, 12: True}, 2),
    ([VALIDATE, "0.5"], {8: True, 12: True}, 2),
    ([LIMIT, "3"], {3: False}, 0),
    ([LIMIT, "0.5"], {4: True, 6: False}, 8),
    (["--trainer.accumulate_grad_batches", "2"], {8: True, 12: True}, 8),
    (["--trainer.accumulate_grad_batches", "2", "--trainer.val_check_interval", "4"], {10: True, 12: True}, 8),
    (["--trainer.num_sanity_val_steps", "2"], {8: True, 12: True}, 8),
    (["--trainer.check_val_every_n_epoch", "1"], {8: True, 12: True}, 8),
], ids=lambda value: " ".join(value).replace("--trainer.", "") if isinstance(value, list) else None)
def test_limits_of_batches(workspace: Path, monkeypatch: pytest.MonkeyPatch, options: list[str],
                           candidates: dict[int, bool], validated: int) -> None:
    """Candidates have a BLEU, over the sentences that were validated, where there was a validation."""
    scored, batches, original = list[list[str]](), list[str](), (CorpusBleu.update, CorpusBleu.compute)

    def update(self: CorpusBleu, hypotheses: list[str], references: list[str]) -> None:
        assert len(hypotheses) == len(references)
        batches.extend(references)
        original[0](self, hypotheses, references)

    def compute(self: CorpusBleu) -> Tensor:
        scored.append(batches.copy())
        batches.clear()
        return original[1](self)

    monkeypatch.setattr(CorpusBleu, "update", update)
    monkeypatch.setattr(CorpusBleu, "compute", compute)
    fit(workspace, *options)
    averaged = json.loads(CONFIG.read_text())["training"]["averaged"]
    assert {one["step"]: one["bleu"] is not None for one in averaged} == candidates
    assert {len(references) for references in scored} == ({validated} if validated else set())
    references = layout.read_corpus(layout.CORPUS / "validation.target")[:8]
    for found in scored:
        assert len(set(found)) == len(found) and set(found) <= set(references)


@pytest.mark.parametrize("options", [(VALIDATE, "0"), ("--trainer.val_check_interval", "10")],
                         ids=["without", "before the first"])
def test_a_run_without_validations_goes_on(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str], options: tuple[str, str]) -> None:
    expected = fit(workspace, *options), curve_of_losses()
    with monkeypatch.context() as patch, pytest.raises(Broken):
        break_at(patch, 9)
        fit(workspace, *options)
    capsys.readouterr()
    assert (fit(workspace, *options), curve_of_losses()) == expected
    assert f"continuing from {WORK / 'resume.ckpt'}\n" in capsys.readouterr().out


def curve_of_losses() -> str:
    return (CURVE / "plots/metrics/training_loss.tsv").read_text()


def test_fast_dev_run_keeps_nothing(uninterrupted: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a checkpoint nor a curve, and what a run that was broken off left is not touched."""
    before = WEIGHTS.read_bytes()
    with monkeypatch.context() as patch, pytest.raises(Broken):
        break_at(patch, 9)
        fit(workspace)
    assert fit(workspace, "--trainer.fast_dev_run", "true") == before
    assert fit(workspace) == (uninterrupted / WEIGHTS).read_bytes()
    assert curve(workspace) == curve(uninterrupted)


@pytest.mark.parametrize(("options", "message"), [
    ([LIMIT, "0"], "no step was trained"),
    ([VALIDATE, "0.1"], "0.1"),
    (["--trainer.overfit_batches", "2"], "--trainer.overfit_batches"),
    (["--trainer.val_check_interval", "0.01"], "val_check_interval"),
    pytest.param(["--trainer.accelerator", "gpu"], "No supported gpu backend found", marks=pytest.mark.skipif(
        torch.accelerator.is_available(), reason="has a GPU")),
])
def test_options_that_cannot_be(workspace: Path, capsys: pytest.CaptureFixture[str], options: list[str],
                                message: str) -> None:
    before = WEIGHTS.read_bytes()
    assert main([*COMMAND, *options]) == 2
    error = capsys.readouterr().err
    *notes, last = error.splitlines()
    assert last.startswith("error: ") and message in last and "error: " not in "".join(notes)
    assert WEIGHTS.read_bytes() == before


@pytest.mark.parametrize(("family", "words"), [("teacher", 63), ("teacher", 64), ("interleaved", 63),
                                               ("interleaved", 90)])
def test_an_overlong_validation_target_is_cut(workspace: Path, capsys: pytest.CaptureFixture[str], family: str,
                                              words: int) -> None:
    """With `filters.evaluation: false` there may be one; training refuses its own."""
    path, tokenizer = layout.BPE / "validation.pairs", Tokenizer.load(layout.BPE)
    pairs = Pairs.open(path)
    rows = [(pairs.source(row).tolist(), pairs.target(row).tolist()) for row in range(len(pairs))]
    rows[3] = rows[3][0], (rows[3][1] * 90)[:words]
    write_pairs(path, rows, max(tokenizer.source_size, tokenizer.target_size), tokenizer.digest)
    fit(workspace, family=family)
    warning = "1 of 8 validation targets are cut to the 64 tokens that the model takes"
    assert capsys.readouterr().out.count(warning) == (words > 63)
