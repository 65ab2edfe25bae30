"""What times depend on: a machine is itself, on every boot, and no other; code has a commit."""

import subprocess
from pathlib import Path

import pytest

from pipeline.evaluation import machine, provenance
from pipeline.evaluation.machine import describe_machine


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_a_machine_stays_itself(state: Path) -> None:
    assert describe_machine() == describe_machine()
    assert len(describe_machine()["identity"]) == 16


def test_the_same_image_on_another_machine_is_another_one(state: Path, monkeypatch: pytest.MonkeyPatch,
                                                          tmp_path: Path) -> None:
    here = describe_machine()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    there = describe_machine()
    assert there.pop("identity") != here.pop("identity")
    assert there == here


@pytest.mark.parametrize(("file", "line"), [("/etc/machine-id", "0123"), ("/proc/cpuinfo", "model\t\t: 17")])
def test_its_details_make_a_machine_another_one(state: Path, monkeypatch: pytest.MonkeyPatch, file: str,
                                                line: str) -> None:
    identity, real = describe_machine()["identity"], machine._text
    monkeypatch.setattr(machine, "_text", lambda path: line if path == file else real(path))
    assert describe_machine()["identity"] != identity


@pytest.mark.parametrize(("flags", "instructions"), [
    ("fpu avx avx2 avx512f avx512vl avx512_vnni", ["avx2", "avx512f", "avx512_vnni"]), ("fpu avx", []),
    ("avx2 avx_vnni", ["avx2", "avx_vnni"])])
def test_its_vector_instructions(state: Path, monkeypatch: pytest.MonkeyPatch, flags: str,
                                 instructions: list[str]) -> None:
    real = machine._text
    text = f"processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: avx2\n"
    monkeypatch.setattr(machine, "_text", lambda path: text if "cpuinfo" in path else real(path))
    described = describe_machine()
    assert (described["processor"], described["instructions"]) == ("AMD EPYC", instructions)


def test_clock_frequencies_do_not_make_a_machine_another_one(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo = "model\t\t: 17\nmodel name\t: abacus\ncpu MHz\t\t: {}\nbogomips\t: {}\n\nmodel\t\t: 18\n"
    found, real = [], machine._text
    for frequency in (1000, 3000):
        text = cpuinfo.format(frequency, 2 * frequency)
        monkeypatch.setattr(machine, "_text", lambda path, text=text: text if "cpuinfo" in path else real(path))
        found.append(describe_machine())
    assert found[0] == found[1] and found[0]["processor"] == "abacus"


def test_without_a_home_the_rest_must_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert describe_machine() == describe_machine()


def test_figures_know_the_commit_of_their_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert provenance.made_now()["commit"] is None
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run(["git", *arguments], check=True)
    commit = provenance.made_now()["commit"]
    assert len(commit) == 12 and not commit.endswith("+")
    (tmp_path / "report.json").touch()
    (tmp_path / "profile").mkdir()
    monkeypatch.chdir(tmp_path / "profile")
    assert provenance.made_now()["commit"] == commit  # a report is no code
    (tmp_path / "params.yaml").touch()
    assert provenance.made_now()["commit"] == f"{commit}+"
