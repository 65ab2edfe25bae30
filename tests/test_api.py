"""The documented names of Python, the examples, and the console command."""

import importlib
import os
import runpy
import subprocess
import sys
import tomllib
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from model_folders import LINES, export

import pipeline
from pipeline import Glossary, PairLine, PipelineError, Scorer, Translator
from pipeline.cli import main
from pipeline.commands import COMMANDS
from pipeline.params import load_params
from pipeline.text_model import open_family

ROOT = Path(__file__).parents[1]


def test_the_package_is_imported_without_pytorch() -> None:
    code = "import pipeline, sys\nassert not {'torch', 'numba', 'numpy'} & sys.modules.keys()\npipeline.PipelineError"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_a_text_is_not_a_list_of_lines(folder: Path) -> None:
    translator = Translator.from_pretrained(folder, device="cpu")
    with pytest.raises(TypeError, match=r"a Translator takes a list of lines; translate\(line\) takes one"):
        list(translator(LINES[0]))
    with pytest.raises(TypeError, match="a Translator takes a list of prefixes, one per line"):
        list(translator(LINES, prefixes="mip lumo"))
    assert translator.translate(LINES[0]) == next(translator([LINES[0]])).hypotheses[0]


@pytest.mark.parametrize(("prefixes", "missing"), [
    (["mip"], "prefix 2"), ([], "prefix 1"), (["mip", ""] + [""] * len(LINES), f"line {len(LINES) + 1}")])
def test_every_line_has_a_prefix(folder: Path, prefixes: list[str], missing: str) -> None:
    translator = Translator.from_pretrained(folder, device="cpu")
    with pytest.raises(PipelineError, match=f"^prefixes: there is no {missing}; give one prefix per line, empty where"):
        list(translator(iter(LINES), prefixes=iter(prefixes)))
    # Lines without an end are read ahead, and no further.
    assert next(translator(repeat(LINES[0]), prefixes=repeat(""), ahead=2)).source == LINES[0]


def test_lines_are_translated_within_a_budget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator, shapes = Translator.from_pretrained(folder, device="cpu", batch_tokens=60), list[tuple[int, ...]]()
    decode = translator._decode

    def noted(model: Any, source: torch.Tensor, *forced: Any) -> Any:
        shapes.append(tuple(source.shape))
        return decode(model, source, *forced)

    monkeypatch.setattr(translator, "_decode", noted)
    lines = [line for line in LINES if line] * 8
    assert [one.source for one in translator(lines)] == lines
    assert sum(rows for rows, _ in shapes) == len(lines) and max(rows for rows, _ in shapes) > 1
    assert all(rows == 1 or rows * pieces <= 60 for rows, pieces in shapes)


def test_the_terms_of_a_glossary_are_placed(folder: Path) -> None:
    """As the command line places them with the same folder."""
    plain = Translator.from_pretrained(folder, "beam3", device="cpu").translate("The red otter")
    term = "mip" if "mip" not in plain else "lumo"
    translator = Translator.from_pretrained(folder, "beam3", device="cpu", glossary=Glossary({"otter": term}))
    assert term in translator.translate("The red otter")


def test_a_score_in_python_is_that_of_the_family(folder: Path) -> None:
    scorer = Scorer.from_pretrained(folder, device="cpu")
    pairs = [PairLine("a pair", line, "mip lumo") for line in LINES if line]
    together = Scorer(open_family(load_params(), "teacher"), device="cpu")(pairs)
    assert scorer(pairs) == together
    for pair, (score, tokens) in zip(pairs, together, strict=True):
        assert scorer.score(pair.source, pair.translation) == (pytest.approx(score, abs=1e-3), tokens)
    assert scorer([]) == []


def test_pairs_of_similar_length_are_scored_together(folder: Path) -> None:
    """In batches within a budget of the longer side's tokens; the results are in the order of the pairs."""
    scorer = Scorer.from_pretrained(folder, device="cpu", batch_tokens=60)
    shapes = list[tuple[torch.Size, ...]]()
    scorer.network.register_forward_pre_hook(lambda module, ids: shapes.append(tuple(one.shape for one in ids)))
    pairs = [PairLine("a pair", line, " ".join(["mip lumo"] * count)) for line in LINES if line for count in (9, 1, 3)]
    found = scorer(pairs)
    batches = [(source[0], max(source[1], target[1])) for source, target in shapes]
    assert sum(rows for rows, _ in batches) == len(pairs) and max(rows for rows, _ in batches) > 1
    assert all(rows == 1 or rows * longest <= 60 for rows, longest in batches)
    for pair, (score, tokens) in zip(pairs, found, strict=True):
        assert scorer.score(pair.source, pair.translation) == (pytest.approx(score, abs=1e-3), tokens)


def test_a_lattice_scores_no_translation(lattice_family: Path) -> None:
    with pytest.raises(PipelineError, match="a lattice model gives no probability to a translation; choose one of an"):
        Scorer.from_pretrained(export("lattice"))


def test_a_decoder_may_be_a_function(folder: Path) -> None:
    from pipeline.decoding import greedy

    ours = Translator.from_pretrained(folder, greedy.search, device="cpu")
    assert [one.hypotheses for one in ours(LINES)] == [
        one.hypotheses for one in Translator.from_pretrained(folder, "greedy", device="cpu")(LINES)]


def test_a_function_that_can_force_nothing_says_so_in_a_line(folder: Path) -> None:
    from pipeline.decoding import greedy

    message = "a decoder that is a function takes no prefixes and no glossary; name a decoder"
    translator = Translator.from_pretrained(folder, greedy.search, device="cpu")
    with pytest.raises(PipelineError, match=f"^{message}$"):
        translator(LINES, prefixes=["mip"] * len(LINES))
    with pytest.raises(PipelineError, match=f"^{message}$"):
        Translator.from_pretrained(folder, greedy.search, device="cpu", glossary=Glossary({"moth": "lumo"}))
    with pytest.raises(PipelineError, match=r"^nbest: 3: a decoder that is a function finds as many hypotheses as "):
        Translator.from_pretrained(folder, greedy.search, nbest=3, device="cpu")


def test_a_format_that_is_unknown(folder: Path) -> None:
    from pipeline.decoding import greedy

    for decoder in (greedy.search, "greedy"):
        with pytest.raises(PipelineError, match=r"^quantization: 'fp16' is unknown; choose one of float32, int8"):
            Translator.from_pretrained(folder, decoder, quantization="fp16", device="cpu")


def test_the_documented_names_are_there_and_no_others() -> None:
    page = (ROOT / "docs/api.md").read_text()
    for name in pipeline.__all__:
        assert getattr(pipeline, name) is not None and f"`{name}" in page
    with pytest.raises(AttributeError, match="module 'pipeline' has no attribute 'translator'"):
        pipeline.translator  # noqa: B018


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_the_examples_run(script: Path, folder: Path, monkeypatch: pytest.MonkeyPatch,
                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), str(folder)])
    capsys.readouterr()
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr()
    assert printed.out.count("\n") >= 2 and printed.err == ""
    assert script.name in (ROOT / "docs/api.md").read_text()


def test_a_cold_sample_is_greedy_search(folder: Path) -> None:
    """The decoder of the example, towards temperature 0, but for words that no translation has."""
    sample = runpy.run_path(str(ROOT / "examples/own_decoder.py"))["sample"]
    decoders = partial(sample, temperature=1e-4), "greedy"
    found = [Translator.from_pretrained(folder, one, device="cpu", scores=True)(LINES) for one in decoders]
    for one, greedy in zip(*found, strict=True):
        assert (one.hypotheses, one.calls, one.warning) == (greedy.hypotheses, greedy.calls, greedy.warning)
        assert one.scores == pytest.approx(greedy.scores, abs=1e-3)


def test_the_console_command_is_the_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    [(name, target)] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].items()
    module, _, function = target.partition(":")
    assert getattr(importlib.import_module(module), function) is main
    for called, program in ((f"/usr/bin/{name}", name), ("/x/pipeline/__main__.py", "python -m pipeline")):
        monkeypatch.setattr(sys, "argv", [called])
        with pytest.raises(SystemExit):
            main(["translate", "--help"])
        assert capsys.readouterr().out.startswith(f"usage: {program} translate ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_every_command_is_completed(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in COMMANDS) and "fast-nmt" in script
    assert shell != "zsh" or COMMANDS["translate"] in script
    if shell == "bash":
        asked = (f"{script}\nCOMP_WORDS=(fast-nmt tr); COMP_CWORD=1; _shtab_fast_nmt; echo \"${{COMPREPLY[@]}}\"\n"
                 "COMP_WORDS=(fast-nmt translate --dec); COMP_CWORD=2; _shtab_fast_nmt; echo \"${COMPREPLY[@]}\"\n"
                 "COMP_WORDS=(fast-nmt translate --input li); COMP_CWORD=3; _shtab_fast_nmt; echo \"${COMPREPLY[@]}\"")
        (tmp_path / "lines.txt").touch()
        completed = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path)
        assert completed.stdout.split() == ["translate", "--decoder", "lines.txt"]
