"""No committed report is older than the code and the parameters that would produce it now."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from typing import Any

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


def test_whatever_git_has_of_a_stage_is_noticed(tmp_path: Path) -> None:
    for name in (".dvc", *CODE, ".dvcignore", "dvc.lock", "dvc.yaml"):
        if (ROOT / name).is_dir():
            copytree(ROOT / name, tmp_path / name, ignore=ignore_patterns("cache", "tmp", "__pycache__"))
        else:
            copy(ROOT / name, tmp_path / name)
    for command in (["init", "--quiet"], ["add", "dvc.lock"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    before = set(stale(tmp_path))
    for path, old, new in (("pipeline/evaluation/speed.py", "\n", "\n\n"), ("reports/decoders.json", "\n", "\n\n"),
                           ("params.yaml", "batch_tokens: 600", "batch_tokens: 601")):
        changed = tmp_path / path
        changed.write_text(changed.read_text().replace(old, new))
    found = {line.partition("dvc.yaml:")[2] for line in set(stale(tmp_path)) - before}
    assert found >= {"speed: pipeline/evaluation/speed.py: modified", "report: reports/decoders.json: modified",
                     "teacher: params.yaml: {'data': 'modified'}"}
