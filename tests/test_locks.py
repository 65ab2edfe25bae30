"""Whoever writes a folder has it alone: a second run is refused before it has touched anything."""

import os
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.files import locked


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(("place", "command"), [
    ("data/corpus", "corpus"), ("data/bpe", "bpe"), ("data/distilled", "distill"), ("data/alignment", "align"),
    ("data/counts", "counts"), ("checkpoints/teacher", "fit --family teacher"),
    ("data/hypotheses/teacher", "test --family teacher"), ("data/peers", "peers"),
    ("reports/analyses", "analyse"), ("reports", "report"),
    ("out/model", "export hf --family teacher --output out/model"),
    ("checkpoints/mean", "average checkpoints/teacher --output checkpoints/mean"),
], ids=lambda text: text.partition(" ")[0])
def test_two_runs_of_a_verb_do_not_write_one_folder(workspace: Path, capsys: pytest.CaptureFixture[str], place: str,
                                                    command: str) -> None:
    with locked(Path(place)):
        before = contents()
        assert main(command.split()) == 2
        assert contents() == before
    told = capsys.readouterr().err
    assert told.startswith(f"error: {place}: another run (process {os.getpid()} on ") and told.count("\n") == 1


def test_a_verb_leaves_no_lock(workspace: Path) -> None:
    assert main(["average", "checkpoints/teacher", "--output", "mean"]) == 0
    assert main(["average", "checkpoints/teacher", "--output", "mean"]) == 2  # it exists
    assert not list(workspace.rglob(".*.lock"))
