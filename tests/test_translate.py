"""`translate`: whatever comes in, as many lines come out, in their order."""

import io
import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from memory import held_bytes

from pipeline.cli import main
from pipeline.commands.translate import add_arguments
from pipeline.count_model.shortlist import Shortlist
from pipeline.decoding import greedy
from pipeline.decoding.settings import with_nbest
from pipeline.documents.plain import read_utf8
from pipeline.errors import PipelineError
from pipeline.glossary import Glossary
from pipeline.model.formats import FORMATS
from pipeline.model_options import check_trained
from pipeline.params import load_params
from pipeline.placeholders import lost_placeholders
from pipeline.text_model import open_family, open_shortlist
from pipeline.translation import Translator

Translate = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def translate(workspace: Path, monkeypatch: pytest.MonkeyPatch,
              capsysbinary: pytest.CaptureFixture[bytes]) -> Translate:
    """A function from standard input and options to status, standard output and standard error."""
    def run(text: bytes, *options: str, family: str = "teacher") -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        status = main(["translate", "--family", family, "--device", "cpu", *options])
        printed = capsysbinary.readouterr()
        return status, printed.out, printed.err.decode()
    return run


AWKWARD = {
    "control characters": "The tiny\x00 otter\x07 hides\x1b[31m\x7f\n",
    "form feeds and separators": "one\x0ctwo\u2028three\u2029four\x85five\x1csix\n",
    "a carriage return within": "the red\rmoth\n",
    "ten thousand words": "otter " * 10_000 + "\n",
    "one word of ten thousand letters": "o" * 10_000 + "\n",
    "right to left": "\u202eהלוטרה צובעת\u202c السلم\n",
    "emoji": "the 🦦 paints 🏮👩‍🚒🇪🇺 no 3 .\n",
    "nothing": "",
    "empty lines": "\n\nThe pale moth counts the ladder no 1 .\n\n",
    "blanks": "   \n\t\n\u00a0\n\u200b\n",
    "no line feed at the end": "The pale moth\nThe red snail",
    "carriage returns at the ends": "The pale moth\r\n\r\nThe red snail\r\n",
    "special symbols": "</s> <pad> <s> <mask> <unk>\n",
    "combining marks": "Z̷͕̍a̸l̵g̶ö\n",
    "a byte order mark": "\ufeffThe red otter\n",
    "a lone surrogate's neighbours": "\ud7ff\ue000\U0010ffff\n",
}


@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("decoder", ["greedy", "beam3"])
def test_line_for_line(translate: Translate, kind: str, decoder: str) -> None:
    text = AWKWARD[kind]
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []
    status, printed, _ = translate(text.encode(), "--decoder", decoder)
    assert status == 0
    assert printed.count(b"\n") == len(lines)
    assert printed.endswith(b"\n") or not lines
    for source, translation in zip(lines, printed.decode().split("\n"), strict=False):
        if not source.strip():
            assert translation == ""


def test_a_model_is_searched_in_eight_bits(translate: Translate) -> None:
    """The option and an entry of the same decoder give the same scores, which are others than those of all bits."""
    text, json_format = b"The tiny otter paints the ladder .\n", ("--format", "json")
    exact, rounded = (json.loads(translate(text, *json_format, *options)[1])["scores"]
                      for options in ((), ("--quantization", "int8")))
    assert exact != rounded and exact == pytest.approx(rounded, abs=0.5)
    params = load_params()
    params.decoders["rounded"] = {"algorithm": "greedy", "quantization": "int8"}
    translator = Translator(params, open_family(params, "teacher"), "rounded", device="cpu", scores=True)
    assert [one.scores for one in translator([text.decode().strip()])] == [rounded]


def test_every_format_of_searches_is_a_choice_of_the_command_line() -> None:
    """Which names them itself, because its help would need torch otherwise."""
    parser = ArgumentParser()
    add_arguments(parser)
    [option] = [one for one in parser._actions if one.dest == "quantization"]
    assert option.choices == FORMATS


def test_many_lines_keep_their_order(translate: Translate, toy_folder: Path) -> None:
    """More lines than are read ahead, sorted by length inside: each gets what it would get alone."""
    lines = (toy_folder / "data/corpus/train.source").read_text().splitlines()
    lines = [line if number % 7 else "" for number, line in enumerate(lines * 5)][:1100]
    status, printed, _ = translate("".join(line + "\n" for line in lines).encode(), "--decoder", "greedy")
    translations = printed.decode().split("\n")[:-1]
    assert status == 0 and len(translations) == len(lines)
    assert all((translation == "") for line, translation in zip(lines, translations, strict=True) if not line)
    for number in (1, 300, 1024, 1099):
        assert translate(lines[number].encode() + b"\n")[1].decode() == translations[number] + "\n"


def test_a_long_line_is_translated_up_to_the_limit_and_said(translate: Translate) -> None:
    status, _, error = translate(b"The red otter\n" + b"otter " * 10_000)
    assert status == 0
    assert "line 2: source cut to the model's 63 pieces" in error.splitlines()


@pytest.mark.parametrize("family", ["teacher", "interleaved"])
def test_nbest_and_json(translate: Translate, family: str) -> None:
    text = b"The red otter paints the lantern no 1 .\n\nDa {name} and {other}\n"
    options = ("--decoder", "beam3", "--nbest", "3", "--format", "json", "--check-placeholders")
    status, printed, error = translate(text, *options, family=family)
    results = [json.loads(line) for line in printed.decode().splitlines()]
    assert status == 0 and len(results) == 3
    assert [result["source"] for result in results] == text.decode().splitlines()
    assert results[1] == {"source": "", "hypotheses": [""], "scores": [0.0], "calls": 0, "lost_placeholders": []}
    for result in (results[0], results[2]):
        assert {"source", "hypotheses", "scores", "calls", "lost_placeholders"} <= result.keys()
        assert result.keys() <= {"source", "hypotheses", "scores", "calls", "lost_placeholders", "warning"}
        assert 1 <= len(result["hypotheses"]) == len(result["scores"]) <= 3
        assert result["scores"] == sorted(result["scores"], reverse=True)
        assert result["calls"] >= 1
    lost = results[2]["lost_placeholders"]
    assert lost == lost_placeholders(results[2]["source"], results[2]["hypotheses"][0])
    assert "{other}" in lost and f"line 3: lost {', '.join(lost)}" in error

    # In text, the same hypotheses stand in a line, with tabs between them.
    _, text_printed, _ = translate(text, "--decoder", "beam3", "--nbest", "3", family=family)
    assert [line.split("\t") for line in text_printed.decode().split("\n")[:-1]] == [
        result["hypotheses"] for result in results]


def test_a_note_shows_what_a_terminal_would_obey(translate: Translate) -> None:
    _, _, error = translate(b"Da {\x1b[31mname}\n", "--check-placeholders")
    assert r"line 1: lost {\x1b[31mname}" in error.splitlines()


def test_scores_are_computed_for_those_who_ask(translate: Translate, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[None] = []
    later = greedy.scored_later

    def scored_later(*arguments: Any) -> Callable[[], Any]:
        scored = later(*arguments)
        return lambda: (computed.append(None), scored())[1]

    monkeypatch.setattr(greedy, "scored_later", scored_later)
    text = b"The red otter\nThe pale moth\n"
    assert translate(text)[0] == 0 and not computed
    assert translate(text, "--format", "json")[0] == 0 and len(computed) == 2


def test_translations_that_are_kept_hold_no_tensors(workspace: Path) -> None:
    """However many lines there are: what is read ahead is one chunk."""
    params = load_params()
    lines = [f"The tiny otter hides the ladder no {number} ." for number in range(40)]
    for scores in (False, True):
        translator = Translator(params, open_family(params, "teacher"), "greedy", device="cpu", batch_tokens=80,
                                scores=scores)
        found = list(translator(lines, ahead=16))
        assert held_bytes(found) == 0 and all((one.scores is not None) == scores for one in found)


def test_from_file_to_file(translate: Translate, workspace: Path) -> None:
    (workspace / "in.txt").write_bytes(b"The red otter\n\nThe pale moth\n")
    status, _, error = translate(b"", "--input", "in.txt", "--output", "deep/out.txt")
    assert status == 2 and "there is no folder deep" in error and not (workspace / "deep").exists()
    (workspace / "deep").mkdir()
    status, printed, _ = translate(b"", "--input", "in.txt", "--output", "deep/out.txt")
    assert (status, printed) == (0, b"")
    assert (workspace / "deep/out.txt").read_bytes() == translate((workspace / "in.txt").read_bytes())[1]


def test_lines_are_counted_for_a_bar_only(translate: Translate, workspace: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """The first translation would wait until all of a long file has been read."""
    (workspace / "in.txt").write_bytes(b"The red otter\nThe pale moth\n")
    opened, really_open = list[Path](), Path.open

    def noted(self: Path, *arguments: Any, **more: Any) -> Any:
        opened.append(self)
        return really_open(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", noted)
    monkeypatch.setattr("pipeline.documents.segments.splitter", lambda language: lambda line: [line])
    for options in ((), ("--split",)):
        for bar, times in (("--no-progress", 1), ("--progress", 2)):
            opened.clear()
            assert translate(b"", "--input", "in.txt", bar, *options)[0] == 0
            assert opened.count(Path("in.txt")) == times  # once to see whether it can be read


def test_invalid_utf8_names_its_line_and_leaves_no_file(translate: Translate, workspace: Path) -> None:
    (workspace / "in.txt").write_bytes(b"The red otter\nfine\nlatin \xe9 one\n")
    status, _, error = translate(b"", "--input", "in.txt", "--output", "out.txt")
    assert status == 2
    assert error.splitlines()[-1].startswith("error: in.txt:3: invalid UTF-8 at byte 7")
    assert not [path for path in workspace.iterdir() if "out.txt" in path.name]
    status, _, error = translate(b"\xff\n")
    assert status == 2 and "standard input:1: invalid UTF-8" in error


@pytest.mark.parametrize("options", [(), ("--split",)])
def test_what_is_before_a_line_that_cannot_be_read_is_translated(translate: Translate, workspace: Path,
                                                                 monkeypatch: pytest.MonkeyPatch,
                                                                 options: tuple[str, ...]) -> None:
    monkeypatch.setattr("pipeline.documents.segments.splitter", lambda language: lambda line: [line])
    (workspace / "in.txt").write_bytes(b"The red otter\nA snail\n\xe9\nnever read\n")
    status, found, error = translate(b"", "--input", "in.txt", *options)
    assert status == 2 and "in.txt:3: invalid UTF-8" in error
    assert found == translate(b"The red otter\nA snail\n", *options)[1] and found.count(b"\n") == 2


def test_a_byte_order_mark_is_not_translated(translate: Translate) -> None:
    """As the corpus is read; further on it is a character like others."""
    text = "The red otter\nThe pale moth\n"
    _, printed, _ = translate(text.encode("utf-8-sig"), "--format", "json")
    assert printed == translate(text.encode(), "--format", "json")[1]
    _, printed, _ = translate(b"The red otter\n\xef\xbb\xbfmoth\n", "--format", "json")
    assert [json.loads(line)["source"] for line in printed.splitlines()] == ["The red otter", "\ufeffmoth"]


def test_nothing_in_is_nothing_out(translate: Translate, workspace: Path) -> None:
    for options in ((), ("--format", "json"), ("--nbest", "2", "--decoder", "beam3")):
        assert translate(b"", *options) == (0, b"", "")
    assert translate(b"", "--decoder", "")[0] == 2  # an unset variable of a shell is not the default
    assert translate(b"", "--output", "out.txt") == (0, b"", "")
    assert (workspace / "out.txt").read_bytes() == b""


def test_an_output_that_exists_survives_an_error(translate: Translate, workspace: Path) -> None:
    (workspace / "out.txt").write_text("precious\n")
    assert translate(b"\xff\n", "--output", "out.txt")[0] == 2
    assert (workspace / "out.txt").read_text() == "precious\n"


def test_an_output_keeps_its_permissions_and_a_link_to_it_remains_one(translate: Translate, workspace: Path) -> None:
    (workspace / "real.txt").write_text("old\n")
    (workspace / "real.txt").chmod(0o600)
    (workspace / "link.txt").symlink_to("real.txt")
    assert translate(b"The red otter\n", "--output", "link.txt")[0] == 0
    assert (workspace / "link.txt").is_symlink() and (workspace / "real.txt").read_text() != "old\n"
    assert (workspace / "real.txt").stat().st_mode & 0o777 == 0o600


def test_lines_are_read_ahead_as_far_as_is_asked_for(translate: Translate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that waits for each answer would otherwise wait for ever."""
    chunks, chunk = list[int](), Translator._chunk

    def counted(self: Translator, lines: list[str], prefixes: list[str]) -> Any:
        chunks.append(len(lines))
        return chunk(self, lines, prefixes)

    monkeypatch.setattr(Translator, "_chunk", counted)
    monkeypatch.setattr("pipeline.documents.segments.splitter", lambda language: lambda line: [line])
    text = b"The red otter\nThe pale moth\nThe red snail\n"
    for options in ((), ("--split",)):
        for ahead, expected in (((), [3]), (("--ahead", "2"), [2, 1]), (("--ahead", "1"), [1, 1, 1])):
            chunks.clear()
            assert translate(text, *options, *ahead)[0] == 0 and chunks == expected
    for option in ("--ahead", "--batch-tokens"):
        status, _, error = translate(b"", option, "0")
        assert status == 2 and error == f"error: {option}: 0 must be at least 1\n"


def test_a_file_is_read_further_ahead_than_a_pipe(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for its first line; also where the shell has redirected it. The writer of a pipe may wait."""
    ahead, call = list[int](), Translator.__call__

    def noted(self: Translator, lines: Any, prefixes: Any = None, **options: int) -> Any:
        ahead.append(options["ahead"])
        return call(self, lines, prefixes, **options)

    monkeypatch.setattr(Translator, "__call__", noted)
    text, verb = workspace / "in.txt", ["translate", "--family", "teacher", "--device", "cpu"]
    text.write_text("The red otter\n")
    ends = os.pipe()
    os.write(ends[1], text.read_bytes())
    os.close(ends[1])
    with text.open() as redirected, open(ends[0]) as pipe:
        for standard_input, options in ((sys.stdin, ["--input", "in.txt"]), (redirected, []), (pipe, []),
                                        (sys.stdin, ["--input", "in.txt", "--ahead", "5"])):
            monkeypatch.setattr(sys, "stdin", standard_input)
            assert main([*verb, *options]) == 0
    assert ahead == [1024, 1024, 32, 5]


def test_batches_are_of_the_size_that_is_asked_for(translate: Translate, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default that of a Translator."""
    sizes, make = list[int](), Translator.__init__

    def noted(self: Translator, *arguments: Any, batch_tokens: int, **options: Any) -> None:
        sizes.append(batch_tokens)
        make(self, *arguments, batch_tokens=batch_tokens, **options)

    default = signature(Translator).parameters["batch_tokens"].default
    monkeypatch.setattr(Translator, "__init__", noted)
    for options in ((), ("--batch-tokens", "4096")):
        assert translate(b"The red otter\n", *options)[0] == 0
    assert sizes == [default, 4096]


def test_a_person_gets_each_line_as_soon_as_it_is_translated(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = list[str]()

    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    class Input(io.BytesIO):
        def __next__(self) -> bytes:
            events.append("read")
            return super().__next__()

    class Output(io.BytesIO):
        def write(self, text: Any) -> int:
            events.append("write")
            return super().write(text)

        def flush(self) -> None:
            events.append("flush")

    monkeypatch.setattr(sys, "stdin", Terminal(Input(b"The red otter\nThe pale moth\n")))
    monkeypatch.setattr(sys, "stdout", Terminal(Output()))
    assert main(["translate", "--family", "teacher", "--device", "cpu"]) == 0
    assert events[:7] == ["read", "write", "flush"] * 2 + ["read"]


@pytest.mark.parametrize(("output", "message"), [
    (".", ".: is a folder; name a file"), ("data", "data: is a folder; name a file"),
    ("/dev/null", "/dev/null: is not a regular file"), ("in.txt", "in.txt: is also the input; name another file"),
    ("data/../in.txt", "data/../in.txt: is also the input"), ("link.txt", "link.txt: is also the input"),
    ("terms.tsv", "terms.tsv: is also the input"), ("out.zst", "out.zst: would not be compressed; choose a name")])
def test_an_output_that_would_replace_something_else(
        translate: Translate, workspace: Path, monkeypatch: pytest.MonkeyPatch, output: str, message: str) -> None:
    """Said before a model is loaded."""
    monkeypatch.setattr("pipeline.model_options.load_params", None)
    (workspace / "in.txt").write_text("The red otter\n")
    (workspace / "link.txt").symlink_to("in.txt")
    (workspace / "terms.tsv").write_text("otter\tpuri\n")
    status, printed, error = translate(b"", "--input", "in.txt", "--glossary", "terms.tsv", "--output", output)
    assert (status, printed) == (2, b"")
    assert error.startswith(f"error: {message}") and error.count("\n") == 1
    assert (workspace / "in.txt").read_text() == "The red otter\n" and Path("/dev/null").is_char_device()


def test_an_input_that_cannot_be_read(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as after <&-
    for verb in ("translate", "score", "explain"):
        assert main([verb, "--family", "teacher"]) == 2
        assert capsys.readouterr().err.startswith("error: standard input: closed; redirect it")
    with open(os.open(os.devnull, os.O_WRONLY)) as writable:  # as after 0>/dev/null
        monkeypatch.setattr(sys, "stdin", writable)
        for verb in ("translate", "score"):
            assert main([verb, "--family", "teacher", "--device", "cpu"]) == 2
            assert capsys.readouterr().err == ("error: standard input: cannot be read: Bad file descriptor; redirect "
                                               "it, or name a file with --input\n")


def test_a_named_pipe_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its first line: a check that opened and closed it would take the text from its writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", None)
        lines = read_utf8(pipe)
    writer = Thread(target=pipe.write_text, args=("The red otter\nThe pale moth\n",), daemon=True)
    writer.start()
    assert list(lines) == ["The red otter", "The pale moth"]
    writer.join()


@pytest.mark.parametrize("output", ["params.yaml/out.txt", "o" * 300])
def test_an_output_that_cannot_be_written(translate: Translate, output: str) -> None:
    status, _, error = translate(b"The red otter\n", "--output", output)
    assert status == 2
    assert error.splitlines()[-1].startswith(f"error: {output}: cannot be written")


@pytest.mark.parametrize(("source", "translation", "lost"), [
    ("{a} and {a}", "{a}", ["{a}"]),
    ("%s of %(count)d", "%(count)d", ["%s"]),
    ("{a} {b}", "{b} und {a}", []),
    ("{a}", "{a} {a}", []),
    ("{ not one } {}", "", []),
    ("{entity.name} 100%", "", ["{entity.name}"]),
    ("%u files, %1$s, %ld, %i, %.1f, %-5d, %(n).2f %(n)d %s", "%d %2$s %l %f %-4d %(n)f %(m)d",
     ["%(n).2f", "%(n)d", "%-5d", "%.1f", "%1$s", "%i", "%ld", "%s", "%u"]),
    ("%+05.1f %*d %.*s %#llx %zu %hhd %c %p %(n)r", "", ["%#llx", "%(n)r", "%*d", "%+05.1f", "%.*s", "%c", "%hhd", "%p",
                                                        "%zu"]),
    ("100% sure, 50 % of it, 10%-off, 5%. %%d %%", "", []),
    ("%%%d", "%%d", ["%d"]),
    pytest.param(f"%{'0' * 100_000}{'1' * 100_000}", "", [], id="digits that take no time"),
])
def test_lost_placeholders(source: str, translation: str, lost: list[str]) -> None:
    assert lost_placeholders(source, translation) == lost


def test_a_decoder_must_suit_the_model_and_the_number_of_hypotheses(
        workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> None:
    change_params({"decoders": {"masks": {"algorithm": "mask_predict", "iterations": 2, "candidates": 3},
                                "paths": {"algorithm": "lattice", "candidates": 2}, "drafts": {
                                    "algorithm": "lattice_gad"}, "drawn": {"algorithm": "sample"}}})
    params = load_params()
    model = open_family(params, "teacher")
    for name in ("masks", "paths", "drawn"):
        assert with_nbest(name, params.decoder(name), 3, "--nbest")["nbest"] == 3
    with pytest.raises(PipelineError, match=r"^decoders.masks: mask_predict searches masked models, and this one is "):
        Translator(params, model, "masks", nbest=3)
    with pytest.raises(PipelineError, match=r"^--nbest: 4 must not exceed the candidates, 3; .* than 'masks'"):
        Translator(params, model, "masks", nbest=4)
    with pytest.raises(PipelineError, match=r"^--nbest: 3 must not exceed 1, what this search finds; .* than 'drafts'"):
        Translator(params, model, "drafts", nbest=3)
    for nbest in (0, 2.5):
        with pytest.raises(PipelineError, match=rf"^nbest: {nbest} must be an integer of at least 1$"):
            Translator(params, model, "masks", nbest=nbest)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match=r"^ahead: 0 must be at least 1$"):
        Translator(params, model, "greedy")(["The"], ahead=0)
    for name in ("ar_r2l", "teachers"):
        with pytest.raises(PipelineError, match=rf"'{name}'"):
            check_trained(params, name)


# Beginnings and terms.

def test_prefixes_are_the_second_column(translate: Translate) -> None:
    sources = ["The red otter paints the lantern no 1 .", "The pale moth", "", "The red snail"]
    plain = translate("".join(one + "\n" for one in sources).encode(), "--decoder", "beam3")[1].decode().split("\n")
    words = plain[1].split()[0]
    for decoder in ("greedy", "beam3"):
        text = f"{sources[0]}\t{words}\n{sources[1]}\n\n{sources[3]}\t\n"
        status, printed, error = translate(text.encode(), "--decoder", decoder, "--prefix")
        found = printed.decode().split("\n")
        assert status == 0 and "begin with" not in error and found[0].startswith(words)
        ordinary = translate("".join(one + "\n" for one in sources).encode(), "--decoder", decoder)[1].decode()
        assert found[1:] == ordinary.split("\n")[1:]


def test_a_prefix_that_cannot_be_forced(translate: Translate) -> None:
    status, printed, error = translate(b"The red otter\t\xf0\x9f\xa6\xa6\n", "--prefix")
    assert status == 0 and printed.count(b"\n") == 1
    assert "the translation does not begin with '🦦'\n" in error
    status, _, error = translate(b"The red otter\tx\n", "--prefix", family="interleaved")
    assert status == 2 and "generates in the order interleaved, and a prefix can only be forced" in error
    # Before any line is translated, so also where none has a prefix.
    assert translate(b"The red otter\n", "--prefix", family="interleaved")[:2] == (2, b"")
    status, printed, error = translate(b"\tmip\n \t \n", "--prefix")
    assert (status, printed) == (0, b"\n\n") and error == "line 1: the translation does not begin with 'mip'\n"
    status, _, error = translate(b"one\ntwo\tx\ty\n", "--prefix")
    assert status == 2 and error.splitlines()[-1].startswith(
        "error: standard input:2: has 2 tabs; with --prefix a line is")


def test_terms_of_a_glossary(translate: Translate, workspace: Path) -> None:
    lines = ["The red otter paints the lantern no 1 .", "The pale moth", "The otters"]
    text = "".join(line + "\n" for line in lines).encode()
    plain = translate(text, "--decoder", "beam3")[1].decode().split("\n")
    term = plain[1].split()[-1]
    (workspace / "terms.tsv").write_text(f"otter\t{term}\n\nnothing of it\tno\n")
    status, printed, error = translate(text, "--decoder", "beam3", "--glossary", "terms.tsv")
    found = printed.decode().split("\n")
    assert status == 0 and "lacks" not in error and term in found[0] and found[1:] == plain[1:]
    status, _, error = translate(text, "--decoder", "greedy", "--glossary", "terms.tsv")
    assert status == 2 and "greedy cannot place terms; choose a decoder of the algorithm beam" in error
    # Before any line is translated, so also where none has a term.
    assert translate(b"The pale moth\n", "--decoder", "greedy", "--glossary", "terms.tsv") == (2, b"", error)
    (workspace / "terms.tsv").write_text("\n")
    assert translate(b"The pale moth\n", "--decoder", "greedy", "--glossary", "terms.tsv")[0] == 0
    for broken, message in (("otter\n", "terms.tsv:1: must be a source phrase, a tab and a target phrase"),
                            ("a\tb\na \tc\n", "terms.tsv:2: 'a' occurs before; keep one of the lines"),
                            ("a\t \n", "terms.tsv:1: must be")):
        (workspace / "terms.tsv").write_text(broken)
        status, _, error = translate(text, "--glossary", "terms.tsv")
        assert status == 2 and error.startswith(f"error: {message}")


def test_a_term_is_looked_for_in_the_form_of_the_model(
        translate: Translate, workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> None:
    change_params({"corpus": {"filters": {"unicode": "NFKC"}}})
    (workspace / "terms.tsv").write_text("otter\t\uff4c\uff55\uff4d\uff4f\n")  # in wide letters
    status, printed, error = translate(b"The red otter\n", "--decoder", "beam3", "--glossary", "terms.tsv")
    assert status == 0 and "lumo" in printed.decode() and "lacks" not in error


@pytest.mark.parametrize(("sentence", "targets"), [
    ("The light is on", ["Leuchte"]), ("Light!", ["Leuchte"]), ("lights, daylight", []), ("LIGHT", []),
    ("The light switch", ["Schalter"]), ("a  light\u00a0switch and light, light", ["Schalter", "Leuchte"]),
    ("use C++ it", ["C++"]), ("ask IT", ["EDV"]), ("a cafe\u0301", ["Caf\u00e9"]), ("a caf\u00e9", ["Caf\u00e9"])])
def test_which_terms_a_sentence_has(sentence: str, targets: list[str]) -> None:
    glossary = Glossary({"light": "Leuchte", "light switch": "Schalter", "C++": "C++", "IT": "EDV",
                         "cafe\u0301": "Cafe\u0301"})
    assert glossary.targets(sentence) == targets


@pytest.mark.parametrize(("terms", "message"), [
    ({"": "Akku"}, "must be a source and a target phrase"),
    ({"battery": " "}, "must be a source and a target phrase"),
    ({"caf\u00e9": "Café", "cafe\u0301": "Kaffee"}, "occurs before")])
def test_a_glossary_of_no_terms_is_refused(terms: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Glossary(terms)


# A lattice, which has no teacher to fall back on: its words come from its counts.

@pytest.mark.parametrize("decoder", ["lattice8", "counts"])
def test_a_lattice_line_for_line(lattice_family: Path, translate: Translate, decoder: str) -> None:
    for text in AWKWARD.values():
        lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []
        status, printed, _ = translate(text.encode(), "--decoder", decoder, family="lattice")
        assert status == 0 and printed.count(b"\n") == len(lines)
        for source, translation in zip(lines, printed.decode().split("\n"), strict=False):
            assert source.strip() or translation == ""


def test_a_lattice_keeps_the_order_of_lines(lattice_family: Path, translate: Translate) -> None:
    lines = (lattice_family / "data/corpus/test.source").read_bytes().splitlines(keepends=True)
    for decoder in ("lattice8", "counts"):
        status, printed, _ = translate(b"".join(lines), "--decoder", decoder, family="lattice")
        alone = [translate(line, "--decoder", decoder, family="lattice")[1] for line in lines[:5]]
        assert status == 0 and printed.splitlines(keepends=True)[:5] == alone
        assert all(line.strip() for line in printed.splitlines())


@pytest.mark.parametrize("cut", [True, False])
def test_nbest_and_calls_of_a_lattice(lattice_family: Path, translate: Translate, cut: bool) -> None:
    text = b"The red otter paints the lantern no 1 .\n"
    if not cut:
        params = Path("params.yaml").read_text()
        assert "ratio: 0.5" in params
        Path("params.yaml").write_text(params.replace("ratio: 0.5", "ratio: 3.0"))
    for decoder, nbest, calls in (("lattice8", 8, 1), ("counts", 1, 0)):
        status, printed, _ = translate(text, "--decoder", decoder, "--nbest", str(nbest), "--format", "json",
                                       family="lattice")
        result = json.loads(printed)
        assert status == 0 and result["calls"] == calls
        assert result.get("warning") == ("translation cut at the length limit" if cut else None)
        assert len(result["hypotheses"]) == len(result["scores"]) == nbest
        assert result["scores"] == sorted(result["scores"], reverse=True)
    status, _, error = translate(text, "--decoder", "counts", "--nbest", "2", family="lattice")
    assert status == 2 and "--nbest: 2 must not exceed 1, what this search finds" in error


def test_without_a_decoder_the_first_of_the_family_is_taken(lattice_family: Path, translate: Translate) -> None:
    text = b"The red otter paints the lantern no 1 .\n"
    assert translate(text, family="lattice")[:2] == translate(text, "--decoder", "lattice8", family="lattice")[:2]
    assert translate(text)[:2] == translate(text, "--decoder", "greedy")[:2]


@pytest.mark.parametrize(("family", "decoder", "message"), [
    ("lattice", "greedy", "decoders.greedy: greedy searches ordered models, and this one is lattice; choose another"),
    ("lattice", "beam3", "decoders.beam3: beam searches ordered models, and this one is lattice; choose another"),
    ("teacher", "lattice8", "decoders.lattice8: lattice searches lattice models, and this one is ordered; choose"),
    ("teacher", "counts", "decoders.counts: counts searches lattice models, and this one is ordered; choose another"),
])
def test_decoders_of_other_models(lattice_family: Path, translate: Translate, family: str, decoder: str,
                                  message: str) -> None:
    status, printed, error = translate(b"The red otter\n", "--decoder", decoder, family=family)
    assert (status, printed) == (2, b"") and error.startswith(f"error: {message}") and error.count("\n") == 1


def test_a_shortlist_by_the_counts_of_the_corpus(lattice_family: Path, translate: Translate,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """One with the whole vocabulary changes nothing, and the smallest has pieces for more beams than any decoder."""
    text = b"The red otter paints the lantern no 1 .\n\nThe pale moth\nx\n"
    for family, decoder in (("interleaved", "greedy"), ("teacher", "beam3")):
        status, printed, _ = translate(text, "--shortlist", "0", "--decoder", decoder, family=family)
        assert status == 0 and printed.count(b"\n") == 4
    assert len(open_shortlist(0)(np.array([], np.int64))) > 50
    monkeypatch.setattr("pipeline.text_model.Shortlist", partial(Shortlist, frequent=120))
    for decoder in ("greedy", "beam3"):
        assert translate(text, "--decoder", decoder, "--shortlist", "40") == translate(text, "--decoder", decoder)
    for number, decoder, message in (("-1", "greedy", "error: shortlist: -1 candidates"),
                                     ("5", "lattice8", "error: decoders.lattice8: lattice cannot search a shortlist")):
        status, printed, error = translate(text, "--shortlist", number, "--decoder", decoder, family="lattice")
        assert status == 2 and not printed and error.startswith(message) and error.count("\n") == 1


def test_a_shortlist_is_of_a_run(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The counts in the current folder are of other pieces than those of a model folder."""
    assert main(["translate", "--model", "elsewhere", "--shortlist", "5", "--input", "params.yaml"]) == 2
    assert capsys.readouterr().err.startswith("error: --shortlist: is made of the count model of a run's corpus; give ")


def test_a_shortlist_without_counts(translate: Translate) -> None:
    status, _, error = translate(b"The red otter\n", "--shortlist", "5")
    assert status == 2 and error.startswith("error: data/counts/both.safetensors: ") and error.count("\n") == 1
