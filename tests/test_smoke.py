"""The whole pipeline through the real command, on a few hundred pairs of the default corpus."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import layout
from pipeline.cli import main
from pipeline.errors import PipelineError
from pipeline.params import load_params
from pipeline.workspace import prepare

pytestmark = pytest.mark.timeout(1800)  # the run alone took ten minutes on two slow cores that had other work as well
ROOT = Path(__file__).parents[1]
TRACKED = ("params.yaml", "dvc.yaml", ".dvcignore", ".dvc", ".gitignore", "presets", "pipeline")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone holds of the files that a run reads."""
    folder = tmp_path_factory.mktemp("project")
    for name in TRACKED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "tmp", "cache"))
        else:
            shutil.copy(ROOT / name, folder / name)
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=A clone"]):
        subprocess.run(["git", "-c", "user.name=Test", "-c", "user.email=test@example.org", *command], cwd=folder,
                       check=True)
    return folder


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def reproduced(project: Path) -> Path:
    done = run(project, "pipeline", "repro", "--profile", "smoke")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return project / "profiles/smoke"


def test_every_system_has_every_row(reproduced: Path) -> None:
    rows = json.loads((reproduced / "reports/decoders.json").read_text())
    params = load_params(reproduced / "params.yaml")
    assert [(row["family"], row["decoder"]) for row in rows] == [
        *((family, decoder) for family in params.systems for decoder in params.decoders_of(family)),
        *(("peer", name) for name in params.peers)]
    assert {(row["family"], row["data"]) for row in rows} == {
        *((family, params.family(family).data.side) for family in params.systems),
        ("peer", params.family(params.baseline).data.side)}
    # Trained for a few steps only, it may hesitate between words; most texts are the same all the same.
    assert all(row["identical_to_greedy"] > 0.9 and row["speedup_vs_beam5"] > 0
               for row in rows if row["family"] == "peer")
    wanted = {"family", "decoder", "data", "bleu", "bleu_signature", "chrf", "ms_per_sentence", "ms_per_sentence_long",
              "speedup_vs_beam5", "speedup_vs_greedy", "tokens_per_second", "calls", "identical_to_greedy"}
    assert all(wanted <= row.keys() for row in rows)
    page = (reproduced / layout.PAGE).read_text()
    assert "http://" not in page and "https://" not in page
    assert (reproduced / "reports/quality_speed.png").read_bytes().startswith(b"\x89PNG")


def test_the_claims_are_judged_or_not_measured(reproduced: Path) -> None:
    verdicts = {one["finding"]: one["verdict"] for one in json.loads((reproduced / "reports/claims.json").read_text())}
    assert set(verdicts.values()) <= {"true", "false", "undecided", "not measured", "not comparable"}
    assert "not measured" in verdicts.values()  # most systems are not in this profile
    assert {"true", "false", "undecided"} & set(verdicts.values())


def test_the_figures_are_copied_to_where_git_sees_them(reproduced: Path, project: Path) -> None:
    for name in ("decoders.json", "claims.json", "speed.json", "counts.json", "analyses.json",
                 "analyses/breakdown.png", "training/teacher/metrics.json"):
        assert (project / "reports/smoke" / name).read_bytes() == (reproduced / "reports" / name).read_bytes()
    assert (project / "reports/smoke/lock.yaml").read_bytes() == (reproduced / "dvc.lock").read_bytes()
    assert not (project / "reports/smoke/quality").exists()


def test_nothing_runs_twice(reproduced: Path, project: Path) -> None:
    before = (reproduced / "dvc.lock").read_bytes()
    again = run(project, "pipeline", "repro", "--profile", "smoke")
    assert again.returncode == 0 and again.stdout.splitlines() == [
        "Nothing has changed: data, models and reports are up to date.",
        "profiles/smoke: not committed as it is; experiments in it and other clones start from what is committed: "
        "git add profiles/smoke && git commit"]
    assert (reproduced / "dvc.lock").read_bytes() == before


def test_a_smoke_run_touches_nothing_outside_of_its_folders(reproduced: Path, project: Path) -> None:
    tracked = {Path(name).parts[0] for name in TRACKED}
    assert {path.name for path in project.iterdir()} <= {*tracked, "profiles", "reports", ".git", ".cache"}
    assert [path.name for path in (project / "reports").iterdir()] == ["smoke"]


def test_git_has_no_text_and_no_weights_of_it(reproduced: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "--others", "--exclude-standard", "."], cwd=reproduced, check=True,
                            capture_output=True, text=True).stdout.split()
    assert {Path(name).parts[0] for name in listed} == {"dvc.lock", "dvc.yaml", "params.yaml", "pipeline", "reports"}


def test_a_student_translates(reproduced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                              capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text"
    text.write_text("Turn on the kitchen light\n\n")
    monkeypatch.chdir(reproduced)
    assert main(["translate", "--family", "lattice", "--input", str(text)]) == 0
    assert capsys.readouterr().out.count("\n") == 2


def test_an_unknown_profile_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(PipelineError, match=r"'nosuch' is unknown; presets has .*smoke"):
        prepare("nosuch")
