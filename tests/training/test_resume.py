"""A run that was broken off goes on from files that are whole, and reports where it cannot."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fitting import CONFIG, WEIGHTS, WORK, Broken, break_at, curve, fit

from pipeline.families.base import TranslationModule
from pipeline.training.candidates import INDEX, Candidate, Candidates
from pipeline.training.resume import CURVE, FINGERPRINT, PREVIOUS, RESUME, begin

RUN = {"parameters": "1", "data": "2", "code": "3"}
TRAINER: Any = SimpleNamespace(is_global_zero=True, strategy=SimpleNamespace(barrier=lambda: None))
STEP = "step-00000004.safetensors"
Damage = Callable[[Path], object]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The work folder of a run that was broken off after its second resume point."""
    work = tmp_path / "work"
    assert begin(work, RUN, candidates(work), tmp_path / "curve", TRAINER) is None
    for step, name in ((4, PREVIOUS), (8, RESUME)):
        candidates(work).add(Candidate(step, 1.0), {"weight": torch.full((300,), float(step))})
        torch.save({"weights": torch.full((300,), float(step)), CURVE: {"plots/loss.tsv": f"step\n{step}\n"}},
                   work / name)
    return work


def candidates(work: Path) -> Candidates:
    return Candidates(work / "candidates", 2, "last")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    """Change a bit of a weight, which torch reads without a word."""
    whole = path.read_bytes()
    place = whole.index(torch.full((300,), 8.0).numpy().tobytes()) + 401
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1:])


def test_a_run_goes_on_from_its_last_resume_point(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = work.with_name("curve")
    (folder / "plots").mkdir(parents=True)
    (folder / "plots/loss.tsv").write_text("step\n8\n9\n")  # also of steps that will come again
    assert begin(work, RUN, candidates(work), folder, TRAINER) == work / RESUME
    assert capsys.readouterr().out == f"continuing from {work / RESUME}\n"
    assert (folder / "plots/loss.tsv").read_text() == "step\n8\n"
    assert (work / PREVIOUS).exists()


@pytest.mark.parametrize("damage", [cut, empty, flip, Path.unlink])
def test_a_damaged_resume_point_leaves_the_one_before(work: Path, capsys: pytest.CaptureFixture[str],
                                                      damage: Damage) -> None:
    damage(work / RESUME)
    assert begin(work, RUN, candidates(work), work.with_name("curve"), TRAINER) == work / PREVIOUS
    notice = "" if damage is Path.unlink else f"{work / RESUME}: truncated or damaged\n"  # killed between two renames
    assert capsys.readouterr().out == f"{notice}continuing from {work / PREVIOUS}\n"
    assert (work.with_name("curve") / "plots/loss.tsv").read_text() == "step\n4\n"
    assert not (work / RESUME).exists()  # or it would replace the good one


@pytest.mark.parametrize(("names", "notice"), [
    ([RESUME, PREVIOUS], f"{PREVIOUS}: truncated or damaged; starting anew"),
    ([FINGERPRINT], f"{FINGERPRINT}: missing or damaged; starting anew"),
    ([f"candidates/{INDEX}"], f"candidates/{INDEX}: missing or damaged; starting anew"),
    ([f"candidates/{STEP}"], f"candidates/{STEP}: missing or damaged; starting anew"),
], ids=str)
@pytest.mark.parametrize("damage", [cut, empty, Path.unlink])
def test_what_is_not_whole_is_not_believed(work: Path, capsys: pytest.CaptureFixture[str], names: list[str],
                                           notice: str, damage: Damage) -> None:
    for name in names:
        damage(work / name)
    assert begin(work, RUN, candidates(work), work.with_name("curve"), TRAINER) is None
    printed = capsys.readouterr().out
    assert printed.endswith(f"{work}/{notice}\n") or (damage is Path.unlink and RESUME in names and not printed)
    assert [path.name for path in work.iterdir()] == [FINGERPRINT]
    assert begin(work, RUN, candidates(work), work.with_name("curve"), TRAINER) is None
    assert not capsys.readouterr().out  # reported once


@pytest.mark.parametrize("part", RUN)
def test_another_run_starts_anew(work: Path, capsys: pytest.CaptureFixture[str], part: str) -> None:
    assert begin(work, {**RUN, part: "other"}, candidates(work), work.with_name("curve"), TRAINER) is None
    assert capsys.readouterr().out == f"{work / RESUME}: of a run with other {part}; starting anew\n"
    assert [path.name for path in work.iterdir()] == [FINGERPRINT]


@pytest.mark.parametrize("names", [[RESUME], [RESUME, PREVIOUS]], ids=["last", "both"])
def test_a_training_ends_alike_whatever_was_truncated(uninterrupted: Path, workspace: Path, names: list[str],
                                                      monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    with monkeypatch.context() as patch, pytest.raises(Broken):
        break_at(patch, 11)
        fit(workspace)
    for name in names:
        cut(WORK / name)
    capsys.readouterr()
    assert fit(workspace) == (uninterrupted / WEIGHTS).read_bytes()
    assert CONFIG.read_bytes() == (uninterrupted / CONFIG).read_bytes()
    assert curve(workspace) == curve(uninterrupted)
    assert f"{WORK / RESUME}: truncated or damaged\n" in capsys.readouterr().out


def test_a_training_goes_on_from_any_checkpoint_of_the_users(
        workspace: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """After a step, within the next one, and just before a validation."""
    change_params({"training": {"accumulate": 2}})
    save = ("--trainer.callbacks+=ModelCheckpoint", "--trainer.callbacks.every_n_train_steps", "1",
            "--trainer.callbacks.save_top_k", "-1", "--trainer.callbacks.filename", "{step}",
            "--trainer.callbacks.dirpath", "saved")

    def on_train_batch_end(self: TranslationModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 6:
            self.trainer.save_checkpoint("saved/within.ckpt")

    with monkeypatch.context() as patch:
        patch.setattr(TranslationModule, "on_train_batch_end", on_train_batch_end)
        expected = fit(workspace, *save), CONFIG.read_bytes()
    for name in ("step=3", "within", "step=4"):
        assert (fit(workspace, "--ckpt_path", f"saved/{name}.ckpt"), CONFIG.read_bytes()) == expected, name


def test_a_run_in_double_precision_goes_on(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all digits of its resume point."""
    double = "--trainer.precision", "64-true"
    expected = fit(workspace, *double)
    with monkeypatch.context() as patch, pytest.raises(Broken):
        break_at(patch, 9)
        fit(workspace, *double)
    assert (WORK / RESUME).exists()
    assert fit(workspace, *double) == expected
