"""`python -m pipeline export`: whole folders or none, and nothing replaced that is not an export."""

import importlib.util
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.interop import export_huggingface
from pipeline.interop.folder import MARKER
from pipeline.params import load_params
from pipeline.text_model import open_family
from pipeline.translation import Translator

SENTENCES = ["The tiny otter paints the ladder no 1 .", "The red raven hides the teapot above 7 snails no 7 .",
             "a moth"]

needs_transformers = pytest.mark.skipif(not importlib.util.find_spec("transformers"),
                                        reason="transformers is not installed")
needs_ctranslate2 = pytest.mark.skipif(not importlib.util.find_spec("ctranslate2"),
                                       reason="ctranslate2 is not installed")


def export(form: str, *options: str, family: str = "teacher") -> int:
    return main(["export", form, "--family", family, "--output", "out/model", *options])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def our_translations() -> list[str]:
    """Greedy ones that end: where a search is cut, each library has a limit of its own."""
    params = load_params()
    results = list(Translator(params, open_family(params, "teacher"), "greedy", device="cpu")(SENTENCES))
    return [result.hypotheses[0] if result.warning is None else "cut" for result in results]


@needs_transformers
def test_text_in_and_text_out_through_transformers(workspace: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    assert export("hf") == 0
    with warnings.catch_warnings(action="ignore"):  # sacremoses is recommended, and not used
        tokenizer = AutoTokenizer.from_pretrained("out/model")
    model = AutoModelForSeq2SeqLM.from_pretrained("out/model")
    rows = model.generate(**tokenizer(SENTENCES, padding=True, return_tensors="pt"))
    ours = our_translations()
    assert any(text != "cut" for text in ours)
    for theirs, text in zip(tokenizer.batch_decode(rows, skip_special_tokens=True), ours, strict=True):
        assert text in (theirs, "cut")


@needs_transformers
@pytest.mark.parametrize("decoder", ["greedy", "beam3"])
def test_out_and_in_again(workspace: Path, decoder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What comes back as a Hugging Face model translates as the family does."""
    assert export("hf") == 0
    Path("lines").write_text("".join(sentence + "\n" for sentence in SENTENCES))
    printed = []
    for chosen in (("--family", "teacher"), ("--model", "hf:out/model")):
        capsys.readouterr()
        assert main(["translate", *chosen, "--decoder", decoder, "--input", "lines", "--format", "json"]) == 0
        printed.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    for ours, theirs in zip(*printed, strict=True):
        assert theirs["hypotheses"] == ours["hypotheses"]
        assert theirs["scores"] == pytest.approx(ours["scores"], abs=1e-4)


@needs_ctranslate2
def test_text_in_and_text_out_through_ctranslate2(workspace: Path) -> None:
    assert export("ctranslate2") == 0
    longest = json.loads((Path("out/model") / MARKER).read_text())["longest"]
    code = ("import sys, ctranslate2\nfrom sentencepiece import SentencePieceProcessor as Model\n"
            "pieces = Model(model_file='out/model/source.spm').encode(sys.argv[2:], out_type=str)\n"
            "found = ctranslate2.Translator('out/model').translate_batch(pieces, beam_size=1,"
            " min_decoding_length=0, max_decoding_length=int(sys.argv[1]))\n"
            "print(*Model(model_file='out/model/target.spm').decode([one.hypotheses[0] for one in found]), sep='\\n')")
    done = subprocess.run([sys.executable, "-c", code, str(longest), *SENTENCES], capture_output=True,
                          text=True, check=True)
    for theirs, text in zip(done.stdout.split("\n")[:-1], our_translations(), strict=True):
        assert text in (theirs, "cut")


@needs_ctranslate2
def test_an_earlier_export_is_replaced_and_says_what_it_is(workspace: Path) -> None:
    assert export("hf") == 0
    first = files(Path("out/model"))
    assert export("hf") == 0 and files(Path("out/model")) == first
    assert export("ctranslate2", "--quantization", "int8") == 0
    assert not (Path("out/model") / "model.safetensors").exists()
    marker = json.loads((Path("out/model") / MARKER).read_text())
    assert (marker["format"], marker["family"], marker["quantization"]) == ("ctranslate2", "teacher", "int8")
    assert marker["unicode"] == "NFC" and marker["vocabulary"]["digest"] == Tokenizer.load(layout.BPE).digest


@pytest.mark.parametrize("kind", ["a folder", "an empty folder", "a file", "a dangling link"])
def test_what_is_no_export_is_never_replaced(kind: str, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = workspace / "out/model"
    output.parent.mkdir()
    if kind == "a file":
        output.write_text("precious")
    elif kind == "a dangling link":
        output.symlink_to("nowhere")
    else:
        output.mkdir()
        if kind == "a folder":
            (output / "precious").write_text("precious")
    before = files(output.parent)
    assert export("hf") == 2
    assert capsys.readouterr().err.startswith(
        f"error: out/model: exists and is not an earlier export (it has no {MARKER})")
    assert files(output.parent) == before and list(output.parent.iterdir()) == [output]


@pytest.mark.parametrize("output", [".", "o" * 300, "params.yaml/model"])
def test_an_output_that_cannot_be_written(workspace: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert main(["export", "hf", "--family", "teacher", "--output", output]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {output}: ") and error.count("\n") == 1


@pytest.mark.parametrize("earlier", [False, True])
def test_an_interrupted_export_leaves_what_was_there(earlier: bool, workspace: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    if earlier:
        assert export("hf") == 0
    before = files(Path("out"))

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_huggingface, "save_tokenizer", interrupt)
    assert export("hf") == 130
    assert files(Path("out")) == before and len(list(Path("out").iterdir())) == earlier


def test_only_left_to_right_families_are_exported(lattice_family: Path, capsys: pytest.CaptureFixture[str],
                                                  change_params: Callable[[dict[str, Any]], None]) -> None:
    change_params({"families": {
        "two_words": {"order": {"name": "left_to_right", "words": 2}}, "masks": {"kind": "masked"},
        "drafts": {"kind": "drafter", "drafting": {"verifier": "teacher"}}, "scores": {"kind": "lattice"},
        "again": {"order": {"name": "left_to_right", "directions": 1}}}})
    for family in ("interleaved", "two_words", "masks", "drafts", "scores"):
        for form in ("hf", "ctranslate2"):
            assert export(form, family=family) == 2
            error = capsys.readouterr().err
            assert error.startswith(f"error: --family: {family!r} does not generate left to right, one token per step")
            assert error.endswith("those that do: teacher, again\n")
    assert not Path("out").exists()


def test_other_mistakes(workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as leaving:
        export("onnx")
    assert leaving.value.code == 2 and "invalid choice: 'onnx'" in capsys.readouterr().err
    assert export("hf", family="no_such") == 2
    assert "family 'no_such' is unknown; params.yaml has teacher, interleaved" in capsys.readouterr().err
    assert export("hf", "--quantization", "int8") == 2
    assert "--quantization: has no effect on hf" in capsys.readouterr().err
    for name in ("ctranslate2", "ctranslate2.specs"):
        monkeypatch.setitem(sys.modules, name, None)
    assert export("ctranslate2") == 2
    assert "run pip install 'fast-nmt-decoding[peers]'" in capsys.readouterr().err
    (layout.checkpoint("teacher") / "config.json").unlink()
    assert export("hf") == 2
    assert "checkpoints/teacher/config.json: not found; run `dvc repro`" in capsys.readouterr().err
    assert not list(Path("out").iterdir())


def test_transformers_is_not_needed_to_export(workspace: Path) -> None:
    code = ("import sys\nsys.modules['transformers'] = None\nfrom pipeline.cli import main\n"
            "sys.exit(main(['export', 'hf', '--family', 'teacher', '--output', 'out/model']))")
    root = Path(export_huggingface.__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(root)}, capture_output=True)
    assert (Path("out/model") / MARKER).is_file()
