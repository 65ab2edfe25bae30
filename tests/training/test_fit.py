"""`fit` through the real command: reproducible to the bit, and a killed run ends as if nothing had happened."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import COMMAND, CONFIG, CURVE, SHARDED, STUDENTS, WEIGHTS, WORK, Broken, break_at, curve, fit
from torch import Tensor

import pipeline
from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import Batch
from pipeline.corpus.pairs import write_pairs
from pipeline.families.base import TranslationModule
from pipeline.files import remove
from pipeline.model.checkpoint import read_weights
from pipeline.model.layers import sinusoids
from pipeline.training.fit import FitCLI
from pipeline.training.metrics import AcceptedPerCall, CorpusBleu

ChangeParams = Callable[[dict[str, Any]], None]

def test_the_same_seed_gives_the_same_bits(uninterrupted: Path, workspace: Path) -> None:
    before = (workspace / WEIGHTS).read_bytes()
    weights = fit(workspace)
    assert weights == (uninterrupted / WEIGHTS).read_bytes() != before
    assert (workspace / CONFIG).read_bytes() == (uninterrupted / CONFIG).read_bytes()
    assert not WORK.exists()
    training = json.loads(CONFIG.read_text())["training"]
    assert training["steps"] == 12 and training["data"] == "raw"
    assert [one["step"] for one in training["averaged"]] == [8, 12]
    assert curve(workspace) == curve(uninterrupted)


def test_another_seed_gives_other_weights(uninterrupted: Path, workspace: Path, change_params: ChangeParams) -> None:
    change_params({"seed": 123_456_789})
    assert fit(workspace) != (uninterrupted / WEIGHTS).read_bytes()


def test_the_threads_are_those_of_the_parameters(uninterrupted: Path, workspace: Path,
                                                 change_params: ChangeParams) -> None:
    torch.set_num_threads(2)
    assert fit(workspace) == (uninterrupted / WEIGHTS).read_bytes()
    change_params({"training": {"threads": 2, "steps": 1}})
    torch.set_num_threads(1)
    fit(workspace)
    assert torch.get_num_threads() == 2 == json.loads(CONFIG.read_text())["training"]["threads"]


@pytest.mark.parametrize(("step", "by_dvc"), [(2, False), (4, True), (9, False)])
def test_a_run_that_broke_off_goes_on(uninterrupted: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str], step: int, by_dvc: bool) -> None:
    """With the same curve, too, whether or not DVC has removed the first part of it before the command runs again."""
    with monkeypatch.context() as patch, pytest.raises(Broken):
        break_at(patch, step)
        fit(workspace)
    assert (WORK / "resume.ckpt").exists() == (step >= 4)
    if by_dvc:
        remove(CURVE)
    capsys.readouterr()
    assert fit(workspace) == (uninterrupted / WEIGHTS).read_bytes()
    assert curve(workspace) == curve(uninterrupted)
    assert ("continuing from" in capsys.readouterr().out) == (step >= 4)
    assert CONFIG.read_bytes() == (uninterrupted / CONFIG).read_bytes()


@pytest.mark.parametrize("family", STUDENTS["families"])
def test_a_run_of_any_kind_that_broke_off_goes_on(lattice_family: Path, change_params: ChangeParams,
                                                  monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                                  family: str) -> None:
    """With the draws of its loss that it would have made, and those of dropout, also of accumulated slices."""
    folder = layout.checkpoint(family)
    change_params({**STUDENTS, "training": {"steps": 4, "validate_every": 2, "accumulate": 2}})
    expected = fit(lattice_family, family=family), (folder / "config.json").read_bytes()
    remove(folder)
    with monkeypatch.context() as patch, pytest.raises(Broken):
        break_at(patch, 3)
        fit(lattice_family, family=family)
    assert not folder.exists()
    capsys.readouterr()
    assert (fit(lattice_family, family=family), (folder / "config.json").read_bytes()) == expected
    assert "continuing from" in capsys.readouterr().out


@pytest.mark.parametrize("strategy", [("--trainer.strategy", "sharded"), SHARDED], ids=["name", "class"])
@pytest.mark.parametrize("family", STUDENTS["families"])
def test_weights_that_are_read_part_by_part_are_not_divided(lattice_family: Path, change_params: ChangeParams,
                                                            capsys: pytest.CaptureFixture[str], family: str,
                                                            strategy: tuple[str, ...]) -> None:
    change_params(STUDENTS)
    assert main([*COMMAND[:2], family, *COMMAND[3:], *strategy]) == 2
    kind = STUDENTS["families"][family]["kind"]
    assert f"--trainer.strategy: sharded: a family of kind {kind} reads parts" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["data/bpe/train.pairs", "data/bpe/validation.pairs", "data/distilled/train.pairs",
                                  "checkpoints/teacher/config.json"])
def test_data_and_weights_of_another_vocabulary_are_refused(workspace: Path, change_params: ChangeParams,
                                                            capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Also where its size is the same, so that nothing else would notice."""
    change_params({"families": {"interleaved": {"data": {"side": "both"}}}})
    shutil.copytree(layout.BPE, layout.DISTILLED)
    digest, stale = Tokenizer.load(layout.BPE).digest, Path(path)
    for own in (bytes.fromhex(digest), digest.encode()):
        stale.write_bytes(stale.read_bytes().replace(own, own[::-1]))
    before = layout.checkpoint("interleaved") / "weights.safetensors"
    content = before.read_bytes()
    assert main(["fit", "--family", "interleaved"]) == 2
    named = f"error: {stale if stale.suffix == '.pairs' else stale.parent}: "
    assert capsys.readouterr().err.startswith((f"{named}made with another vocabulary (", f"{named}trained with "))
    assert before.read_bytes() == content


def test_sources_that_are_cut_are_counted(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = Tokenizer.load(layout.BPE)
    write_pairs(layout.BPE / "train.pairs", [([9] * length, [10, 11]) for length in (5, 63, 64, 65)],
                tokenizer.source_size, tokenizer.digest)
    assert main([*COMMAND, "--trainer.fast_dev_run", "true"]) == 0
    assert capsys.readouterr().err.count("2 of 4 sources are cut to the model's 63 pieces\n") == 1


def test_an_interrupted_run_is_reported(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    before = WEIGHTS.read_bytes()
    break_at(monkeypatch, 6, KeyboardInterrupt)
    assert main([*COMMAND]) == 130
    assert "interrupted; the same command continues" in capsys.readouterr().err
    assert WEIGHTS.read_bytes() == before  # the earlier checkpoint stays until there is another


KILL = """
import os, signal, sys
from pipeline.families.ordered import OrderedModule
original = OrderedModule.training_step
def training_step(self, batch, batch_idx):
    if self.trainer.global_step == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(self, batch, batch_idx)
OrderedModule.training_step = training_step
from pipeline.cli import main
main(sys.argv[1:])
"""


def test_a_killed_run_goes_on(uninterrupted: Path, workspace: Path) -> None:
    """Also where the environment of its first part asked for another number of threads."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pipeline.__file__).parents[1]), "OMP_NUM_THREADS": "2"}
    killed = subprocess.run([sys.executable, "-c", KILL, *COMMAND], env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (WORK / "resume.ckpt").exists()
    assert fit(workspace) == (uninterrupted / WEIGHTS).read_bytes()
    assert curve(workspace) == curve(uninterrupted)
    assert CONFIG.read_bytes() == (uninterrupted / CONFIG).read_bytes()


def test_other_parameters_begin_anew(workspace: Path, change_params: ChangeParams, monkeypatch: pytest.MonkeyPatch,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"optimisation": {"learning_rate": 0.003}}
    change_params(changes)
    expected = fit(workspace), curve(workspace)
    change_params({})
    with monkeypatch.context() as patch, pytest.raises(Broken):
        break_at(patch, 9)
        fit(workspace)
    change_params(changes)
    capsys.readouterr()
    assert (fit(workspace), curve(workspace)) == expected
    printed = capsys.readouterr().out
    assert f"{WORK / 'resume.ckpt'}: of a run with other parameters; starting anew\n" in printed
    assert "continuing from" not in printed


@pytest.mark.parametrize(("changes", "options", "file", "part"), [
    ({"limit": {"extra": 5}}, [], None, "parameters"),
    ({"training": {"average": 1}}, [], None, "parameters"),
    ({"training": {"threads": 2}}, [], None, "parameters"),
    ({}, ["--trainer.gradient_clip_algorithm", "value"], None, "parameters"),
    ({}, ["--trainer.plugins", "TorchSyncBatchNorm"], None, "parameters"),
    ({}, [], layout.CORPUS / "validation.target", "data"),
    ({}, [], layout.BPE / "validation.pairs", "data"),
], ids=["limit", "average", "threads", "clipping", "plugins", "references", "validation"])
def test_whatever_decides_the_result_is_in_the_fingerprint(
        workspace: Path, change_params: ChangeParams, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any],
        options: list[str], file: Path | None, part: str) -> None:
    """By which an unfinished run finds out whether it may continue."""
    found = list[dict[str, str]]()
    monkeypatch.setattr(FitCLI, "fit", lambda self, **_: found.append(self.inputs))
    assert main([*COMMAND]) == 0
    change_params(changes)
    if file is not None:
        file.write_bytes(file.read_bytes()[:-1] + b"\1")
    assert main([*COMMAND, *options]) == 0
    before, after = found
    assert [name for name, value in after.items() if before[name] != value] == [part]


def test_accumulated_slices_train_the_same_model(workspace: Path, change_params: ChangeParams) -> None:
    """Without dropout, two half batches a step are one whole batch."""
    found = []
    for slices in (1, 2):
        change_params({"network": {"dropout": 0.0}, "training": {"average": 1, "accumulate": slices}})
        fit(workspace, "--trainer.precision", "64-true")
        found.append(read_weights(WEIGHTS))
    whole, halves = found
    assert whole.keys() == halves.keys()
    for name, weight in whole.items():
        assert weight.dtype == torch.float64
        torch.testing.assert_close(halves[name], weight, rtol=0, atol=1e-9)


def test_options_of_lightning_win(workspace: Path) -> None:
    fit(workspace, "--trainer.max_steps", "5")
    training = json.loads(CONFIG.read_text())["training"]
    assert training["steps"] == 5
    assert [one["step"] for one in training["averaged"]] == [4, 5]


@pytest.mark.parametrize("option", ["--trainer.max_stepz", "--model.network.widht", "--nonsense"])
def test_unknown_options(workspace: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main([*COMMAND, option, "5"]) == 2
    error = capsys.readouterr().err
    assert option.rpartition(".")[2].lstrip("-") in error and "--help-lightning" in error and error.count("\n") == 1


@pytest.mark.parametrize(("changes", "message"), [
    ({"families": {"teacher": {"order": {"name": "diagonal"}}}},
     "order: 'diagonal' is unknown; choose one of left_to_right"),
    ({"network": {"max_length": 8}}, "raise network.max_length or lower bpe.max_length"),
    ({"data": {"side": "distilled"}}, "families.teacher.data.side is 'distilled', but distilled data are what"),
])
def test_mistakes_are_one_line(workspace: Path, change_params: ChangeParams, capsys: pytest.CaptureFixture[str],
                               changes: dict[str, Any], message: str) -> None:
    before = WEIGHTS.read_bytes()
    change_params(changes)
    assert main([*COMMAND]) == 2
    error = capsys.readouterr().err.splitlines()[-1]  # a notice about long sources may come first
    assert error.startswith("error: ") and message in error
    assert WEIGHTS.read_bytes() == before


@pytest.mark.parametrize("family", ["interleaved", "of_no_system"])
def test_a_student_starts_from_its_teacher(workspace: Path, change_params: ChangeParams, family: str) -> None:
    """One step at a learning rate of almost nothing: the student's weights are the teacher's."""
    change_params({"optimisation": {"learning_rate": 1e-12}, "training": {"steps": 1, "average": 1},
                   "families": {family: {"order": {"name": "interleaved"}}}})
    teacher = read_weights(WEIGHTS)
    fit(workspace, family=family)
    student = read_weights(layout.checkpoint(family) / "weights.safetensors")
    assert student.keys() == teacher.keys()
    for name, weight in teacher.items():
        torch.testing.assert_close(student[name], weight, rtol=0, atol=1e-8)
    assert json.loads((layout.checkpoint(family) / "config.json").read_text())["order"]["name"] == "interleaved"


def test_a_student_of_another_direction_takes_what_has_none(workspace: Path, change_params: ChangeParams) -> None:
    """Its decoder is its own, and its positions begin at its own first one."""
    change_params({"optimisation": {"learning_rate": 1e-12}, "training": {"steps": 1, "average": 1},
                   "network": {"positions": "learned"}, "families": {"interleaved": {
                       "order": {"name": "right_to_left"},
                       "start_with": {"weights": "encoder", "positions": [-1, -1]}}}})
    teacher = read_weights(WEIGHTS)
    fit(workspace, family="interleaved")
    student = read_weights(Path("checkpoints/interleaved/weights.safetensors"))
    same = {name for name, weight in teacher.items() if torch.allclose(student[name], weight, rtol=0, atol=1e-8)}
    matrices = {name.split(".")[0] for name in same if teacher[name].dim() > 1}
    assert matrices == {"encoder", "target_embedding" if "target_embedding.weight" in teacher else "source_embedding"}
    table = sinusoids(-1 - torch.arange(65), 16)
    torch.testing.assert_close(student["target_positions.learned"], table, rtol=0, atol=1e-8)


def test_training_stops_when_nothing_gets_better(workspace: Path, change_params: ChangeParams) -> None:
    change_params({"optimisation": {"learning_rate": 1e-12}, "training": {"patience": 1, "steps": 40}})
    fit(workspace)
    assert json.loads(CONFIG.read_text())["training"]["steps"] == 8  # the second validation is no better than the first


@pytest.mark.parametrize("family", ["drafter", "heads"])
def test_what_drafts_is_judged_by_its_accepted_tokens(workspace: Path, change_params: ChangeParams, family: str,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Its BLEU is its verifier's, whatever it has learnt."""
    change_params({**STUDENTS, "training": {"steps": 40, "validate_every": 2, "patience": 1, "patience_gain": 0.1,
                                            "average": 2, "average_by": "best"}})
    accepted = [2.0, 2.5, 2.8, 2.85]
    monkeypatch.setattr(AcceptedPerCall, "compute", lambda self: torch.tensor(accepted.pop(0)))
    fit(workspace, family=family)
    training = json.loads((layout.checkpoint(family) / "config.json").read_text())["training"]
    assert training["steps"] == 8 and not accepted  # the fourth validation is not better by the gain
    assert training["averaged"] == [{"step": step, "accepted": pytest.approx(score)} for step, score in (
        (6, 2.8), (8, 2.85))]


def test_validation_scores_with_the_tokenizer_of_the_evaluation(workspace: Path, change_params: ChangeParams,
                                                                bleu_tokenizers: set[str]) -> None:
    change_params({"evaluation": {"bleu_tokenizer": "char"}, "training": {"steps": 1, "average": 1}})
    fit(workspace)
    assert main(["validate", "--family", "teacher"]) == 0
    assert bleu_tokenizers == {"char"}


def test_a_run_with_patience_and_dropped_merges_goes_on(workspace: Path, change_params: ChangeParams,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """With the validations that it has counted, on the way down of its learning rate, and with the pieces as before."""
    training = {"patience": 2, "patience_gain": 0.5, "cooldown": 5, "steps": 40, "validate_every": 2, "accumulate": 2}
    change_params({"data": {"bpe_dropout": 0.2}, "training": training, "optimisation": {"schedule": "constant"}})
    known = {2: 7.0, 4: 7.4, 6: 7.3}
    scores, rates = list(known.values()), dict[int, set[float]]()
    monkeypatch.setattr(CorpusBleu, "compute", lambda self: torch.tensor(scores.pop(0) if scores else 9.0))
    original = TranslationModule.training_step

    def training_step(self: TranslationModule, batch: Batch, batch_idx: int) -> Tensor:
        rates.setdefault(self.trainer.global_step, set()).add(self.trainer.optimizers[0].param_groups[0]["lr"])
        return original(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(TranslationModule, "training_step", training_step)
        expected = fit(workspace)
    config = json.loads(CONFIG.read_text())["training"]
    assert config["steps"] == 11  # two validations after the first are not better by the gain; then five steps
    peak = max(rates[4])
    fall = [rate for step in range(6, 11) for rate in rates[step]]
    assert fall == pytest.approx([peak * left for left in (1, 0.8, 0.6, 0.4, 0.2)])
    remove(WEIGHTS.parent)
    for step, first in ((5, 2), (9, 6)):  # before the last validation that counts, and during the fall
        scores[:] = [known[validated] for validated in known if validated >= first]
        with monkeypatch.context() as patch, pytest.raises(Broken):
            break_at(patch, step)
            fit(workspace)
    scores.clear()
    assert fit(workspace) == expected and json.loads(CONFIG.read_text())["training"] == config
    change_params({"training": training, "optimisation": {"schedule": "constant"}})
    scores[:] = known.values()
    assert fit(workspace) != expected


def test_mixed_precision_trains_with_clipped_gradients(workspace: Path, change_params: ChangeParams,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    change_params({"training": {"clip": 0.01}})
    norms, original = list[float](), TranslationModule.configure_gradient_clipping

    def clip(self: TranslationModule, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        gradients = [one.grad for one in self.network.parameters() if one.grad is not None]
        norms.append(float(torch.nn.utils.get_total_norm(gradients)))

    monkeypatch.setattr(TranslationModule, "configure_gradient_clipping", clip)
    fit(workspace, "--trainer.precision", "bf16-mixed")
    assert norms == pytest.approx([0.01] * 12, rel=1e-3)
