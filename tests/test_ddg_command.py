"""`ddg`: the text, the three files, and folders that are left alone."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from masked import masked

from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.settings import VocabularySettings

SENTENCE = "The red otter paints the lantern"
SHORT: dict[str, Any] = {"limit": {"ratio": 0.0, "extra": 6}}
Change = Callable[[dict[str, Any]], None]
FILES = {"ddg.html", "ddg.png", "ddg.svg"}


def ddg(*options: str) -> int:
    return main(["ddg", "--family", "teacher", "--device", "cpu", *options])


@pytest.fixture(autouse=True)
def short_translations(change_params: Change) -> None:
    """Pictures of few cells are drawn quickly."""
    change_params(SHORT)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_sentence(workspace: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert ddg(SENTENCE) == 0
    printed, notes = capfd.readouterr()
    assert printed.startswith(f"  {SENTENCE}\n\n     1 ")
    assert max(map(len, printed.split("\n  = ")[0].splitlines())) <= 60
    assert re.search(r"\d+ tokens? in \d+ iterations?, \d\.\d\d per iteration; \d+ settled together", printed)
    assert "written: ddg/ddg.html, ddg.png, ddg.svg" in notes
    first = files(Path("ddg"))
    assert set(first) == FILES and SENTENCE.encode() in first["ddg.html"] and b'lang="xx"' in first["ddg.html"]
    # Again: what it has written itself it replaces, with the same bytes.
    assert ddg(SENTENCE) == 0 and files(Path("ddg")) == first
    assert ddg("The pale moth", "--output", "ddg") == 0 and files(Path("ddg")) != first


def test_an_empty_folder_may_be_filled(workspace: Path) -> None:
    Path("made/of").mkdir(parents=True)
    assert ddg(SENTENCE, "--output", "made/of") == 0 and set(files(Path("made/of"))) == FILES


@pytest.mark.parametrize("content", [{"notes.txt": "mine"}, dict.fromkeys(FILES, "mine"), {"ddg.html": "mine"}],
                         ids=["others", "of the same names", "some of them"])
def test_a_folder_of_others_is_left_alone(workspace: Path, capsys: pytest.CaptureFixture[str],
                                          content: dict[str, str]) -> None:
    Path("ddg").mkdir()
    for name, text in content.items():
        Path("ddg", name).write_text(text)
    assert ddg(SENTENCE) == 2
    assert "has files that this command has not written; name another folder" in capsys.readouterr().err
    assert files(Path("ddg")) == {name: text.encode() for name, text in content.items()}


def test_a_folder_to_which_a_file_was_added_is_left_alone(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ddg(SENTENCE) == 0
    Path("ddg/notes.txt").write_text("mine")
    assert ddg("The pale moth") == 2 and Path("ddg/notes.txt").exists()
    assert ddg(SENTENCE, "--output", "ddg/notes.txt") == 2
    assert "notes.txt is a file; name a folder" in capsys.readouterr().err
    assert ddg(SENTENCE, "--output", ".") == 2 and Path("params.yaml").exists()


@pytest.mark.parametrize(("output", "message"), [
    (".", "is the current folder; name another one"), ("o" * 300, "cannot be written: File name too long"),
    ("params.yaml/ddg", "cannot be written: File exists")])
def test_an_output_that_cannot_be_written(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str], output: str, message: str) -> None:
    if output == ".":
        Path("empty").mkdir()
        monkeypatch.chdir("empty")  # which would be replaced under the shell that is in it
        monkeypatch.setattr("pipeline.model_options.load_params", None)
    assert ddg(SENTENCE, "--output", output) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error


@pytest.mark.parametrize(("sentence", "options", "message"), [
    ("", (), "sentence: '' has no words; give one that has"),
    (" \t", (), "has no words; give one that has"),
    (os.fsdecode(b"otter \xff"), (), "sentence: not UTF-8"),
    (SENTENCE, ("--family", "nosuch"), "nosuch"),
    (SENTENCE, ("--family", "interleaved"), "order interleaved, 2 words per step; choose one of one word per step"),
    (SENTENCE, ("--device", "abacus"), "device: 'abacus' is unknown")])
def test_what_cannot_be_shown(workspace: Path, capsys: pytest.CaptureFixture[str], sentence: str,
                              options: tuple[str, ...], message: str) -> None:
    assert ddg(sentence, *options) == 2
    errors = capsys.readouterr().err
    assert message in errors and errors.count("\n") == 1 and not Path("ddg").exists()


def test_a_model_of_another_kind(workspace: Path, change_params: Change,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    change_params({**SHORT, "families": {"nat": {"kind": "masked", "decoders": ["nat"]}},
                   "students": {"nat": "teacher"}, "systems": ["teacher", "interleaved", "nat"],
                   "decoders": {"nat": {"algorithm": "mask_predict", "iterations": 1, "candidates": 1}}})
    network = masked(vocabulary=120, encoder_layers=1, decoder_layers=1, max_length=64).float()
    save_checkpoint(layout.checkpoint("nat"), network, VocabularySettings(120, 120, Tokenizer.load(layout.BPE).digest),
                    unique_weights(network), {})
    assert ddg(SENTENCE, "--family", "nat") == 2
    assert "a masked model has no greedy search to be iterated; choose an ordered family" in capsys.readouterr().err


def test_a_source_that_is_too_long_is_cut_and_reported(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ddg(" ".join([SENTENCE] * 12)) == 0
    assert capfd.readouterr().err.splitlines()[0] == "source cut to the model's 63 pieces"
    assert b"source cut to the model&#x27;s 63 pieces" in Path("ddg/ddg.html").read_bytes()
