"""No committed report is older than the code and the parameters that would produce it now."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from dvc.repo import Repo

ROOT = Path(__file__).parents[1]
CODE = ("pipeline", "params.yaml", "reports", "trainings", "decoders", "distillation.json")
"""What git has of a stage, its code, its parameters and its figures, and the facts that are made of them. A clone lacks
all else that stages read and write."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git has, as they are here."""
    tmp_path = tmp_path_factory.mktemp("clone")
    for name in subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True,
                               text=True).stdout.split("\0"):
        if name and not name.startswith("tests/") and (ROOT / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, tmp_path / name, follow_symlinks=False)
    for command in (["init", "--quiet"], ["add", "*dvc.lock"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


@pytest.fixture(scope="module")
def before(clone: Path) -> set[str]:
    """What is stale in the clone as it is."""
    return set(stale(clone))


def stale(repository: Path) -> Iterator[str]:
    """The stages whose lock, if git has it, names another state of what git has; each with what has changed."""
    locks = subprocess.run(["git", "ls-files", "*dvc.lock"], cwd=repository, check=True, capture_output=True, text=True)
    folders = [(repository / lock).parent for lock in locks.stdout.splitlines()]
    for folder in folders:
        subprocess.run([sys.executable, "-m", "pipeline", "facts"], cwd=folder, check=True)
    with Repo(str(repository)) as repo:
        status: dict[str, list[Any]] = repo.status([str(folder / "dvc.yaml") for folder in folders])
    for stage, changes in status.items():
        for change in changes:
            if isinstance(change, dict):
                for path, state in (item for kind in change.values() for item in kind.items()):
                    if any(part in CODE for part in Path(path).parts):
                        yield f"{stage}: {path}: {state}"
            elif change == "changed command":
                yield f"{stage}: {change}"


def test_no_report_is_older_than_its_code(before: set[str]) -> None:
    assert not before, "make repro, and commit dvc.lock and reports"


def test_whatever_git_has_of_a_stage_is_noticed(clone: Path, before: set[str]) -> None:
    for path, old, new in (("pipeline/evaluation/speed.py", "\n", "\n\n"), ("reports/decoders.json", "\n", "\n\n"),
                           ("params.yaml", "batch_tokens: 600", "batch_tokens: 601"),
                           ("pipeline/decoding/pair_beam.py", "\n", "\n\n")):
        changed = clone / path
        changed.write_text(changed.read_text().replace(old, new))
    found = {line.partition("dvc.yaml:")[2] for line in set(stale(clone)) - before}
    assert found >= {"speed: pipeline/evaluation/speed.py: modified", "report: reports/decoders.json: modified",
                     "teacher: data/trainings/teacher.json: modified", "speed: data/decoders: modified",
                     "evaluate@double_token: data/decoders/double_token.json: modified"}
    assert not {line for line in found if line.startswith(("evaluate@ar: data/decoders", "distill: data/distillation"))}
