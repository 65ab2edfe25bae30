"""The campaign tells what is as promised from what is not, and hits the processes that it means to hit."""

import signal
import sys
from pathlib import Path

import pytest

from benchmarks.faults import disks, flips, kills
from benchmarks.faults.workshop import Ended, Workshop, call, copy_run, differing, digests
from pipeline.checksums import record

ERROR = "error: data/bpe/meta.json: damaged; run `dvc repro`\n"


@pytest.mark.parametrize(("status", "text", "expected"), [
    (2, ERROR, True), (2, f"step 4\n{ERROR}", True), (1, ERROR, False), (2, f"{ERROR}more\n", False),
    (2, "Traceback (most recent call last):\n" + ERROR, False), (2, ERROR + ERROR, False), (2, "", False)])
def test_a_refusal_is_one_line(status: int, text: str, expected: bool) -> None:
    assert Ended(status, text).is_one_line == expected


@pytest.mark.parametrize(("status", "text", "unharmed", "expected"), [
    (2, ERROR, True, True), (2, ERROR.replace("bpe/meta", "corpus/train"), True, False), (0, "", True, True),
    (0, "", False, False), (-11, "", True, False)])
def test_a_flip_must_be_named_or_have_no_effect(status: int, text: str, unharmed: bool, expected: bool) -> None:
    assert flips._judge("a bit", "data/bpe/meta.json", Ended(status, text), unharmed).passed == expected


_GOOD = Ended(0, "")


@pytest.mark.parametrize(("ended", "kept", "again", "different", "hidden", "expected"), [
    (Ended(2, ERROR), [], _GOOD, [], [], True), (Ended(2, ERROR), ["reports/bpe.json"], _GOOD, [], [], True),
    (Ended(2, ERROR), ["data/bpe/joint.model"], _GOOD, [], [], False),
    (Ended(1, "no space\n"), [], _GOOD, [], [], False),
    (Ended(2, ERROR), [], Ended(2, ERROR), [], [], False), (Ended(2, ERROR), [], _GOOD, ["out.txt"], [], False),
    (Ended(2, ERROR), [], _GOOD, [], ["data/.bpe.aside"], False), (_GOOD, [], _GOOD, ["out.txt"], [], False)])
def test_a_full_disk_must_leave_all_as_it_was(ended: Ended, kept: list[str], again: Ended, different: list[str],
                                              hidden: list[str], expected: bool) -> None:
    assert disks._judge("bpe", ended, kept, again, different, hidden).passed == expected


def test_a_flip_changes_one_bit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x00\x01")
    flips.flip(tmp_path / "file", 1, 2)
    assert (tmp_path / "file").read_bytes() == b"\x00\x05"


def test_files_are_compared_but_for_times_and_unfinished_work(tmp_path: Path) -> None:
    for name in ("data/a", "data/page/index.html", "reports/speed.json", "checkpoints/.work/b", "checkpoints/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    before = digests(tmp_path)
    assert sorted(before) == ["checkpoints/c", "data/a"]
    (tmp_path / "checkpoints/c").write_text("other")
    (tmp_path / "data/new").write_text("")
    assert differing(before, digests(tmp_path)) == ["checkpoints/c", "data/new"]


def test_a_verb_runs_in_a_copy(workspace: Path, tmp_path: Path) -> None:
    """A flipped bit of the toy vocabulary, from the command to the verdict."""
    copy_run(workspace, tmp_path / "copy")
    command = "translate --family teacher --device cpu --decoder greedy --input in.txt --output out.txt"
    record(tmp_path / "copy/data/bpe", ["meta.json"])
    flips.flip(tmp_path / "copy/data/bpe/meta.json", 20, 1)
    ended = call(tmp_path / "copy", command)
    assert ended.is_one_line and "data/bpe/meta.json: damaged" in ended.last
    assert Path.cwd() == workspace and str(tmp_path) not in ended.error
    killed = call(tmp_path / "copy", command, before=signal.pause, killed_after=0.0)
    assert killed.status == -signal.SIGKILL


_RUNNER = """
import subprocess, sys
stage = subprocess.Popen([sys.executable, "-m", "pipeline", "fit", "--family", "ar"])
print("error: fit ended with", stage.wait(), flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize(("victim", "told"), [("stage", "status 3: error: fit ended with -9"),
                                              ("runner", "status -9: nothing"), ("all", "status -9: nothing")])
def test_signals_hit_whom_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str, told: str) -> None:
    workshop = Workshop(tmp_path, 1)
    (workshop.clone / "pipeline").mkdir(parents=True)
    (workshop.clone / "pipeline/__main__.py").write_text("import time; time.sleep(20)")
    (workshop.clone / "runner.py").write_text(_RUNNER)
    monkeypatch.setattr(kills, "REPRO", (sys.executable, "runner.py"))
    outcome = kills._disturb(workshop, signal.SIGKILL, ["fit ar"], 0.0, victim)
    assert outcome is not None and outcome.passed and outcome.happened.endswith(told)
    assert f"fit ar: SIGKILL to {victim} ({2 if victim == 'all' else 1} processes)" in outcome.what


def test_a_run_that_has_ended_is_not_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop = Workshop(tmp_path, 1)
    workshop.clone.mkdir()
    monkeypatch.setattr(kills, "REPRO", (sys.executable, "-c", ""))
    assert kills._disturb(workshop, signal.SIGKILL, ["fit ar"], 0.0, "all") is None
    monkeypatch.setattr(kills, "REPRO", (sys.executable, "-c", "import sys; sys.exit('error: no')"))
    outcome = kills._disturb(workshop, signal.SIGKILL, ["fit ar"], 0.0, "all")
    assert outcome is not None and not outcome.passed and "error: no" in outcome.happened
