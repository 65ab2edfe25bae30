"""The command line: quick to answer, and one line for a user's mistake."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.cli import main
from pipeline.commands import COMMANDS
from pipeline.errors import PipelineError

SLOW_TO_IMPORT = {"torch", "pytorch_lightning", "jsonargparse", "matplotlib", "sacrebleu", "numba", "numpy",
                  "sentencepiece", "dvc", "transformers"}


def in_a_process(*arguments: str) -> tuple[set[str], str]:
    """Top-level modules that a fresh interpreter has loaded after the command, and what it printed."""
    code = ("import sys\nfrom pipeline.cli import main\n"
            "try:\n    main(sys.argv[1:])\nexcept SystemExit as leaving:\n    assert not leaving.code\n"
            "print('LOADED', *{name.split('.')[0] for name in sys.modules})")
    environment = {**os.environ, "PYTHONPATH": str(Path(pipeline.__file__).parents[1])}
    printed = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True,
                             check=True).stdout
    text, loaded = printed.split("LOADED")
    return set(loaded.split()), text


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["translate", "--help"], ["fit", "--help"],
                                       ["test", "--help"], ["distill", "--help"], ["serve", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    """Or it would take seconds."""
    loaded, printed = in_a_process(*arguments)
    assert "pipeline" in loaded and printed.strip()
    assert not loaded & SLOW_TO_IMPORT
    assert arguments != ["--help"] or all(f"  {verb} " in printed for verb in COMMANDS)


def test_every_command_has_its_file() -> None:
    commands = Path(pipeline.__file__).parent / "commands"
    assert {verb.replace("-", "_") for verb in COMMANDS} == {path.stem for path in commands.glob("*.py")} - {"__init__"}


def test_an_unknown_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["trian"])
    assert leaving.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "argument COMMAND: invalid choice: 'trian'" in last and "translate" in last


def test_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([])
    assert leaving.value.code == 2
    assert "COMMAND" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("arguments", "message"), [
    (["translate", "--family", "nobody"], "--family: family 'nobody' is unknown; params.yaml has teacher, interleaved"),
    (["translate", "--family", "teacher", "--decoder", "beam99"],
     "--decoder: decoder 'beam99' is unknown; params.yaml has greedy, beam3"),
    (["translate", "--family", "teacher", "--nbest", "0"], "--nbest: 0 must be at least 1"),
    (["translate", "--family", "teacher", "--nbest", "4", "--decoder", "beam3"],
     "error: --nbest: 4 must not exceed the beams, 3; choose another decoder than 'beam3'"),
    (["translate", "--family", "teacher", "--languages", "en", "xx"], "--languages: is for a .tmx file, and for"),
    (["translate", "--family", "teacher", "--device", "tpu"], "device: 'tpu' is unknown; choose cpu, cuda or auto"),
    (["translate", "--family", "teacher", "--input", "absent.txt"], "absent.txt: cannot be read: No such file"),
    (["translate", "--family", "teacher", "--input", "data"], "data: cannot be read: Is a directory"),
    (["fit", "--family", "nobody"], "--family: family 'nobody' is unknown"),
    (["test", "--family", "nobody"], "--family: family 'nobody' is unknown"),
    (["test", "--family", "teacher", "--decoder", "beam99"], "--decoder: decoder 'beam99' is unknown"),
])
def test_mistakes_are_one_line_and_status_2(workspace: Path, capsys: pytest.CaptureFixture[str],
                                            monkeypatch: pytest.MonkeyPatch, arguments: list[str],
                                            message: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ") and message in printed.err
    assert printed.err.count("\n") == 1


def test_nbest_needs_a_decoder_that_has_one(workspace: Path, capsys: pytest.CaptureFixture[str],
                                            change_params: Callable[[dict[str, Any]], None]) -> None:
    # It names what the user typed, not a key of params.yaml that they never wrote.
    change_params({"decoders": {"jacobi": {"algorithm": "jacobi"}}})
    for decoder in ("greedy", "jacobi"):
        assert main(["translate", "--family", "teacher", "--nbest", "2", "--decoder", decoder]) == 2
        assert capsys.readouterr().err == ("error: --nbest: 2 must not exceed 1, what this search finds; choose "
                                           f"another decoder than '{decoder}'\n")


def test_outside_of_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (["bpe"], ["corpus"], ["fit", "--family", "x"],
                      ["translate", "--family", "x", "--input", "/dev/null"]):
        assert main(arguments) == 2
        assert capsys.readouterr().err.startswith("error: params.yaml: not found")


def test_a_checkpoint_that_is_not_there(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "checkpoints/teacher/weights.safetensors").unlink()
    for verb in ("translate", "test"):
        assert main([verb, "--family", "teacher"]) == 2
        assert "checkpoints/teacher/weights.safetensors: not found; run `dvc repro`" in capsys.readouterr().err


def test_bugs_keep_their_traceback(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pipeline.commands.bpe.load_params", bug)
    with pytest.raises(ZeroDivisionError):
        main(["bpe"])


def test_statuses(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for error, status in ((PipelineError("a line"), 2), (KeyboardInterrupt(), 130)):
        def fail(error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr("pipeline.commands.bpe.load_params", fail)
        assert main(["bpe"]) == status
    assert capsys.readouterr().err.splitlines() == ["error: a line", "interrupted"]
    monkeypatch.setattr("pipeline.commands.distill.load_params", fail)  # which continues
    assert main(["distill"]) == 130
    assert capsys.readouterr().err == "interrupted; the same command continues where it stopped\n"


def test_one_decoder_leaves_the_figures_of_the_others(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["test", "--family", "teacher", "--trainer.accelerator", "cpu", "--in-place"]
    report = Path("reports/quality/teacher.json")
    assert main(options) == 0
    whole = json.loads(report.read_text())
    assert len(whole["decoders"]) > 1
    assert main([*options, "--decoder", "greedy"]) == 0
    assert json.loads(report.read_text()) == whole
    for damaged in ("{}", "[]", '{"decoders": 3}'):
        report.write_text(damaged)
        assert main([*options, "--decoder", "greedy"]) == 2 and report.read_text() == damaged
        assert f"error: {report}: holds no figures of decoders" in capsys.readouterr().err


def test_killed_while_it_writes_a_test_leaves_no_figures_of_other_hypotheses(
        workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    report = Path("reports/quality/teacher.json")
    report.parent.mkdir(parents=True)
    report.write_text('{"decoders": {"greedy": {"bleu": 99}}}')
    monkeypatch.setattr("pipeline.evaluation.test.write_hypotheses", killed)
    assert main(["test", "--family", "teacher", "--decoder", "beam3"]) == 130
    assert not report.exists()
