"""No committed report is older than the code and the parameters that would produce it now."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest
from dvc.repo import Repo

ROOT = Path(__file__).parents[1]
CODE = ("pipeline", "params.yaml", "reports")
"""What git has of a stage: its code, its parameters, its figures. A clone lacks all else that stages read and write."""


def stale(repository: Path) -> Iterator[str]:
    """The stages whose lock, if git has it, names another state of what git has; each with what has changed."""
    locks = subprocess.run(["git", "ls-files", "*dvc.lock"], cwd=repository, check=True, capture_output=True, text=True)
    pipelines = [str(repository / Path(lock).with_name("dvc.yaml")) for lock in locks.stdout.splitlines()]
    with Repo(str(repository)) as repo:
        status: dict[str, list[Any]] = repo.status(pipelines)
    for stage, changes in status.items():
        for change in changes:
            if isinstance(change, dict):
                for path, state in (item for kind in change.values() for item in kind.items()):
                    if any(part in CODE for part in Path(path).parts):
                        yield f"{stage}: {path}: {state}"
            elif change == "changed command":
                yield f"{stage}: {change}"


def test_no_report_is_older_than_its_code() -> None:
    assert not list(stale(ROOT)), "make repro, and commit dvc.lock and reports"


@pytest.mark.parametrize("path", ["pipeline/evaluation/speed.py", "params.yaml", "reports/decoders.json"])
def test_whatever_git_has_of_a_stage_is_noticed(tmp_path: Path, path: str) -> None:
    copied = tmp_path / "copy"
    copytree(ROOT, copied, ignore=ignore_patterns(".venv", "data", "checkpoints", "profiles", "cache", ".*_cache"))
    changed = copied / path
    content = changed.read_text()
    changed.write_text(content.replace("batch_tokens: 600", "batch_tokens: 601") if path == "params.yaml"
                       else content + "\n")
    assert any(path.split("/")[0] in line for line in stale(copied))
