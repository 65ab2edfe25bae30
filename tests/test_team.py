"""What teams do with DVC in a profile's folder: experiments, a queue, comparisons, and a remote for a second clone.

The commands are those of docs/teams.md. The stages are stand-ins, except for the facts; the models are random.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from baselines import BEAM5

from pipeline.blocks import merge
from pipeline.stages import environment

ROOT = Path(__file__).parents[1]
DVC_YAML = """\
stages:
  facts:
    cmd: python -m pipeline facts
    always_changed: true
    outs:
      - data/machine.json: {{cache: false}}
      - data/inputs.json: {{cache: false}}
      - data/trainings: {{cache: false}}
      - data/decoders: {{cache: false}}
      - data/distillation.json: {{cache: false}}
  bpe:
    cmd: python pipeline/work.py bpe 0 {toy}/data/bpe data/bpe
    params: [bpe]
    outs: [data/bpe]
    metrics: [{{reports/bpe.json: {{cache: false}}}}]
  teacher:
    cmd: python pipeline/work.py teacher ${{training.steps}} {toy}/checkpoints/teacher checkpoints/teacher
    deps: [data/bpe]
    params: [training]
    outs: [checkpoints/teacher]
    metrics: [{{reports/teacher.json: {{cache: false}}}}]
  speed:
    cmd: python pipeline/work.py speed 1
    deps: [checkpoints, data/machine.json]
    metrics: [{{reports/speed.json: {{cache: false}}}}]
artifacts:
  teacher: {{path: checkpoints/teacher, type: model}}
"""
WORK = """\
import json, pathlib, shutil, sys
name, figure, *copied = sys.argv[1:]
if copied:
    pathlib.Path(copied[1]).parent.mkdir(exist_ok=True)
    shutil.copytree(*copied)
report = pathlib.Path("reports", name).with_suffix(".json")
report.parent.mkdir(exist_ok=True)
report.write_text(json.dumps({"figure": int(figure)}))
print(f"worked on {name}")
"""


def run(folder: Path, *command: str, stdin: str = "", **variables: str) -> str:
    """The output of a command that succeeds."""
    done = subprocess.run(command, cwd=folder, env={**environment(), "DVC_NO_ANALYTICS": "1", **variables}, input=stdin,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def dvc(folder: Path, *arguments: str, **variables: str) -> str:
    return run(folder, sys.executable, "-m", "dvc", *arguments, **variables)


def git(folder: Path, *arguments: str) -> str:
    return run(folder, "git", "-c", "user.name=Test", "-c", "user.email=test@example.org", *arguments)


@pytest.fixture(scope="module")
def project(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with the default run's lock, a preset, and a team's remote, a folder."""
    folder = tmp_path_factory.mktemp("team") / "first"
    shutil.copytree(ROOT / "pipeline", folder / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    params = yaml.safe_load((toy_folder / "params.yaml").read_text(encoding="utf-8"))
    (folder / "params.yaml").write_text(yaml.safe_dump(merge(params, BEAM5)), encoding="utf-8")
    (folder / "pipeline/work.py").write_text(WORK)
    (folder / "dvc.yaml").write_text(DVC_YAML.format(toy=toy_folder))
    (folder / "presets").mkdir()
    (folder / "presets/mine.yaml").write_text("training: {steps: 5}\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    dvc(folder, "remote", "add", "--default", "team", str(folder.parent / "remote"))
    dvc(folder, "repro")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=The default run")
    return folder


REPRO = (sys.executable, "-m", "pipeline", "repro", "--profile")


@pytest.fixture(scope="module")
def made(project: Path) -> Path:
    """The folder of a profile after `make repro PROFILE=mine`."""
    printed = run(project, *REPRO, "mine")
    assert "Stage 'bpe' is cached - skipping run" in printed  # the default run has made it
    assert "worked on teacher" in printed and "worked on bpe" not in printed
    assert "git add profiles/mine && git commit" in printed
    return project / "profiles/mine"


def test_an_experiment_needs_a_commit_and_loses_nothing_without_one(made: Path) -> None:
    git(made, "add", ".")
    failed = subprocess.run([sys.executable, "-m", "dvc", "exp", "run", "-S", "training.steps=6"], cwd=made,
                            env=environment(), capture_output=True, text=True, check=False)
    assert failed.returncode
    assert "error: profiles/mine: not committed, and DVC keeps experiments as changes of a commit; " in failed.stderr
    assert (made / "params.yaml").exists() and (made / "checkpoints/teacher/weights.safetensors").exists()
    run(made.parent.parent, *REPRO, "mine")


@pytest.fixture(scope="module")
def profile(made: Path) -> Path:
    """It is committed."""
    git(made, "add", ".")
    git(made, "commit", "--quiet", "--message=The run of a profile")
    return made


def test_git_has_the_lock_and_the_figures_and_no_text_or_weights(profile: Path) -> None:
    assert set(git(profile, "ls-files").split()) == {
        "dvc.yaml", "dvc.lock", "params.yaml", "pipeline", "reports/bpe.json", "reports/teacher.json",
        "reports/speed.json"}
    assert git(profile, "status", "--porcelain", ".") == ""


def test_an_experiment_is_compared_with_the_commit(profile: Path) -> None:
    printed = dvc(profile, "exp", "run", "--name", "longer", "-S", "training.steps=7")
    assert "worked on teacher" in printed and "worked on bpe" not in printed
    assert json.loads(dvc(profile, "metrics", "diff", "--json")) == {
        "reports/teacher.json": {"figure": {"old": 5, "new": 7, "diff": 2}}}
    git(profile, "checkout", ".")
    dvc(profile, "checkout", "dvc.yaml")


def test_a_queue_of_experiments(profile: Path) -> None:
    """Each runs in a copy of the repository, which has the profile and not the folder that git ignores."""
    dvc(profile, "exp", "run", "--queue", "--name", "queued", "-S", "training.steps=9")
    dvc(profile, "queue", "start")
    try:
        assert "worked on teacher" in dvc(profile, "queue", "logs", "--follow", "queued")
    finally:
        dvc(profile, "queue", "stop")
    rows = dvc(profile, "exp", "show", "--csv").splitlines()
    column = rows[0].split(",").index("profiles/mine/reports/teacher.json:figure")
    assert {row.split(",")[0]: row.split(",")[column] for row in rows[1:]}["queued"] == "9"
    assert git(profile, "status", "--porcelain", ".") == ""
    dvc(profile, "exp", "apply", "queued")
    assert (profile / "pipeline").readlink() == Path("../../pipeline")  # and no copy of the code
    assert git(profile, "diff", "--name-only", "--relative").split() == [
        "dvc.lock", "params.yaml", "reports/teacher.json"]
    git(profile, "checkout", ".")
    dvc(profile, "checkout", "dvc.yaml")


def test_other_hardware_times_anew_and_trains_nothing(profile: Path, tmp_path: Path) -> None:
    printed = dvc(profile, "exp", "run", XDG_STATE_HOME=str(tmp_path))  # whose random number is part of its identity
    assert "worked on speed" in printed and "worked on teacher" not in printed
    git(profile, "checkout", ".")


def test_a_second_clone_translates(project: Path, profile: Path) -> None:
    dvc(project, "push")
    run(project, "gto", "register", "profiles/mine:teacher")
    git(project, "clone", "--quiet", str(project), "../second")
    second = project.parent / "second/profiles/mine"
    dvc(second, "pull", "dvc.yaml")
    assert not (second.parent.parent / "checkpoints/teacher").exists()  # nothing but this profile
    source = "The red otter paints the lantern no 1 .\n"
    printed = run(second, sys.executable, "-m", "pipeline", "translate", "--family", "teacher", stdin=source)
    assert printed.count("\n") == 1
    dvc(project.parent, "artifacts", "get", str(project), "profiles/mine:teacher", "--out", "model")
    assert (project.parent / "model/weights.safetensors").read_bytes() == (
        profile / "checkpoints/teacher/weights.safetensors").read_bytes()
