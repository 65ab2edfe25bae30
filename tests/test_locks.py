"""Whoever writes a folder has it alone, and a report tells of nothing but the folder that is there."""

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main
from pipeline.files import is_alive, locked, write_json


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(("place", "command"), [
    ("data/corpus", "corpus"), ("data/bpe", "bpe"), ("data/distilled", "distill"), ("data/alignment", "align"),
    ("data/counts", "counts"), ("data/models", "models"), ("checkpoints/teacher", "fit --family teacher"),
    ("data/hypotheses/teacher", "test --family teacher"), ("data/peers", "peers"),
    ("reports/analyses", "analyse"), ("reports", "report"),
    ("out/model", "export hf --family teacher --output out/model"),
    ("checkpoints/mean", "average checkpoints/teacher --output checkpoints/mean"),
], ids=lambda text: text.partition(" ")[0])
def test_two_runs_of_a_command_do_not_write_one_folder(workspace: Path, capsys: pytest.CaptureFixture[str], place: str,
                                                    command: str) -> None:
    with locked(Path(place)):
        before = contents()
        assert main(command.split()) == 2
        assert contents() == before
    told = capsys.readouterr().err
    assert told.startswith(f"error: {place}: another run (process {os.getpid()} on ") and told.count("\n") == 1


def test_another_user_s_process_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose unfinished write must not be cleared up."""
    def refuse(process: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert is_alive(1)


def test_a_command_leaves_no_lock(workspace: Path) -> None:
    assert main(["average", "checkpoints/teacher", "--output", "mean"]) == 0
    assert main(["average", "checkpoints/teacher", "--output", "mean"]) == 2  # it exists
    assert not list(workspace.rglob(".*.lock"))


@pytest.mark.parametrize(("command", "module", "report"), [
    ("corpus", "pipeline.sources.build", "reports/corpus.json"),
    ("bpe", "pipeline.train_bpe", "reports/bpe.json"),
    ("distill --devices 1 --accelerator cpu", "pipeline.distillation", "reports/distilled.json"),
    ("test --family teacher --in-place --trainer.accelerator cpu --trainer.devices 1", "pipeline.evaluation.test",
     "reports/quality/teacher.json"),
], ids=lambda text: text.partition(" ")[0])
def test_a_killed_run_leaves_no_report_of_what_it_has_replaced(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                                               command: str, module: str, report: str) -> None:
    class Killed(BaseException):
        pass

    def write(path: Path, value: Any) -> None:
        if path == Path(report):
            raise Killed
        write_json(path, value)

    write_json(Path(report), "an earlier run's")
    monkeypatch.setattr(f"{module}.write_json", write)
    with pytest.raises(Killed):
        main(command.split())
    assert not Path(report).exists()
