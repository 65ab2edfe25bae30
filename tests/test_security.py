"""What hostile files can do: nothing but one harmless line. What is executed, unpacked, expanded, escaped and found."""

import ast
import gzip
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
import zstandard
from pyarrow import parquet as arrow_parquet

from pipeline import lines, strict_yaml
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.documents.po import Catalogue
from pipeline.errors import PipelineError
from pipeline.evaluation.page import Texts, _sample
from pipeline.files import read_json
from pipeline.interop.cards import data_card
from pipeline.lines import read_lines
from pipeline.params import load_params
from pipeline.sources import wheel as wheels_of_texts
from pipeline.sources.mo import read_compiled
from pipeline.sources.readers import home_assistant, parquet, ua_gec, wheels
from pipeline.strict_yaml import read_yaml
from pipeline.training.resume import _is_curve, read_state

ROOT = Path(__file__).parents[1]
HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "[here](javascript:alert(1))", "\x1b[2J\x07",
           "`</code>` | <b>x</b>"]


# Code in files.

def refused_calls(source: str) -> Iterator[str]:
    """The calls in a Python file that run what is in a file or in a text."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called, options = ast.unparse(node.func), {one.arg: ast.unparse(one.value) for one in node.keywords}
        name = called.rpartition(".")[2]
        if (called in ("eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.getoutput")
                or called.startswith(("pickle.", "dill.", "cloudpickle.", "joblib.", "marshal.", "shelve."))
                or (name in ("load", "load_from_checkpoint") and called.startswith(("torch.", "module."))
                    and options.get("weights_only") != "True")
                or (called in ("np.load", "numpy.load") and options.get("allow_pickle", "False") != "False")
                or (called.startswith("yaml.") and name in ("unsafe_load", "full_load", "load_all", "load")
                    and ast.unparse(node.args[-1]) not in ("_Loader", "yaml.SafeLoader"))
                or options.get("shell", "False") != "False" or options.get("trust_remote_code", "False") != "False"
                or name in ("extractall", "extract", "unpack_archive")):
            yield f"line {node.lineno}: {ast.unparse(node)[:80]}"


@pytest.mark.parametrize("call", [
    "pickle.load(file)", "torch.load(path)", "torch.load(path, weights_only=False)", "np.load(f, allow_pickle=True)",
    "yaml.load(text, yaml.Loader)", "yaml.unsafe_load(text)", "eval(text)", "exec(text)", "os.system(text)",
    "subprocess.run(text, shell=True)", "from_pretrained(name, trust_remote_code=True)", "archive.extractall(folder)"])
def test_what_runs_a_file_is_found(call: str) -> None:
    assert list(refused_calls(f"def f():\n    return {call}")) == [f"line 2: {call}"]


def test_nothing_that_users_feed_is_executed() -> None:
    files = [*ROOT.glob("pipeline/**/*.py"), *ROOT.glob("examples/**/*.py"), ROOT / "install.py"]
    found = [f"{path.relative_to(ROOT)}, {call}" for path in files for call in refused_calls(path.read_text("utf-8"))]
    assert len(files) > 200 and found == []


class Bomb:
    """Its unpickling creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_resume_point_runs_nothing(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "curve": Bomb(tmp_path / "ran")}, tmp_path / "resume.ckpt")
    assert read_state(tmp_path / "resume.ckpt") is None and not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [[1, 2], "text", torch.ones(2)], ids=["list", "text", "tensor"])
def test_a_resume_point_of_something_else_is_damaged(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "resume.ckpt")
    assert read_state(tmp_path / "resume.ckpt") is None


@pytest.mark.parametrize(("files", "sound"), [
    ({"metrics.csv": "step", "version_0/hparams.yaml": ""}, True), ({"../metrics.csv": ""}, False),
    ({"/tmp/metrics.csv": ""}, False), ({"a/../../b": ""}, False), ({"a": b""}, False), (["a"], False), (None, False)])
def test_a_curve_stays_in_its_folder(files: Any, sound: bool) -> None:
    assert _is_curve(files) is sound


# YAML and JSON.

def laughs(levels: int) -> str:
    """YAML in which each of nine values of a list is the list of the level before."""
    return "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, levels))


@pytest.mark.parametrize(("text", "message"), [
    ("a: !!python/object/apply:os.system ['touch ran']\n", "could not determine a constructor for the tag"),
    ("a: !!python/name:os.system\n", "could not determine a constructor for the tag"),
    (laughs(9), r"its aliases stand for more than 100,000 values; write them out$"),
    ("a: &a [*a]\n", "line 1: an alias within what it stands for; write it out"),
    ("a: &a {<<: *a}\n", "line 1: an alias within what it stands for"),
    ("a: " + "[" * 5000, "maximum recursion depth"),
    ("a: !!bool perhaps\n", "a value cannot be read .KeyError"),
    ('a: !!int ""\n', "a value cannot be read"),
    (f"a: {'9' * 5000}\n", "a value cannot be read .ValueError"),
])
def test_hostile_yaml_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(text)
    with pytest.raises(PipelineError, match=rf"^params.yaml: not valid YAML: .*{message}"):
        read_yaml(Path("params.yaml"))
    assert not Path("ran").exists()


def test_some_aliases_are_fine() -> None:
    assert len(strict_yaml.load_yaml(laughs(4))["a3"]) == 9


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, '{"a": ' + "9" * 5000 + "}"],
                         ids=["lists", "objects", "a number", "a number within"])
def test_hostile_json_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(PipelineError, match=r"meta.json: not valid JSON \("):
        read_json(tmp_path / "meta.json")


# Archives and compressed files.

STRINGS = {f"homeassistant/components/lamp/translations/{language}.json": b'{"a": "Lamp"}' for language in ("en", "de")}
CORRECTIONS = {f"ua_gec/data/gec-only/train/{name}": b"one\n"
               for name in ("source-sentences/1.src.txt", "target-sentences/1.a1.txt")}
READERS: dict[str, tuple[dict[str, bytes], Callable[[Path], Any], Any]] = {
    "strings": (STRINGS, lambda path: home_assistant.read_wheel(path, "en", "de"), {"lamp": [("Lamp", "Lamp")]}),
    "corrections": (CORRECTIONS, lambda path: ua_gec.read_documents(path, "gec-only", "train"),
                    {"1": (["one"], [["one"]])}),
    "catalogues": ({"a/de/LC_MESSAGES/b.po": b'msgid "a"\nmsgstr "b"\n'}, lambda path: wheels.read_wheel(path, "de"),
                   [("a", "b")]),
}
every_wheel = pytest.mark.parametrize("reader", READERS)


def write_wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "../outside")
        device = zipfile.ZipInfo("device")
        device.external_attr = (stat.S_IFBLK | 0o666) << 16
        archive.writestr(device, "")
    return path


@every_wheel
def test_members_that_climb_write_nothing(tmp_path: Path, reader: str) -> None:
    members, read, expected = READERS[reader]
    inner = tmp_path / "inner"
    inner.mkdir()
    path = write_wheel(inner / "a.whl", {**members, "../outside": b"x", "/tmp/../outside": b"x",
                                         str(tmp_path / "absolute"): b"x"})
    assert read(path) == expected
    assert sorted(tmp_path.rglob("*")) == [inner, path]


@every_wheel
def test_a_member_that_grows_without_bounds_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                            reader: str) -> None:
    monkeypatch.setattr(wheels_of_texts, "_LARGEST", 1 << 20)
    members, read, _ = READERS[reader]
    path = write_wheel(tmp_path / "a.whl", dict.fromkeys(members, bytes(1 << 21)))
    assert path.stat().st_size < 1 << 14
    with pytest.raises(PipelineError, match=r"^a.whl: .* cannot be read \(more than 1 MiB when unpacked\)"):
        read(path)


def test_a_claimed_size_is_not_believed(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "a.whl", STRINGS)
    content = bytearray(path.read_bytes())
    for at in [index for index in range(len(content)) if content[index:index + 4] == b"PK\1\2"]:
        content[at + 24:at + 28] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(content)
    try:  # whichever Python's zipfile decides
        assert home_assistant.read_wheel(path, "en", "de")
    except PipelineError as error:
        assert "cannot be read" in str(error)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     ending: str) -> None:
    monkeypatch.setattr(lines, "_LONGEST", 1 << 20)
    content = b"a lamp\n" + bytes(1 << 22)
    path = tmp_path / f"train.{ending}"
    path.write_bytes(gzip.compress(content) if ending == "gz" else zstandard.ZstdCompressor().compress(content))
    found = read_lines(path)
    assert next(found) == "a lamp"
    with pytest.raises(PipelineError, match=rf"train.{ending}: has a line of more than 1 MiB; is it text\?"):
        next(found)


def test_entries_that_share_one_text_do_not_multiply_it() -> None:
    text, entries = b"lamp" * 1000, 2000
    place = len(text).to_bytes(4, "little") + (28).to_bytes(4, "little")
    head = b"".join(number.to_bytes(4, "little") for number in (
        0x950412DE, 0, entries, 28 + len(text), 28 + len(text), 0, 0))
    with pytest.raises(ValueError, match="its entries overlap"):
        list(read_compiled(head + text + place * entries))


@pytest.mark.parametrize("forms", ["0", "999999999", "9" * 5000])
def test_a_catalogue_of_a_billion_plural_forms(tmp_path: Path, forms: str) -> None:
    path = tmp_path / "de.po"
    path.write_text(f'msgid ""\nmsgstr "Plural-Forms: nplurals={forms}; plural=0;\\n"\n\nmsgid "a"\n'
                    'msgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n')
    with pytest.raises(PipelineError, match=r"de.po: its header has nplurals=[09]+, but languages have 1 to 10"):
        Catalogue(path)


@pytest.mark.parametrize(("table", "message"), [
    (pyarrow.table({"en": [1], "de": ["x"]}), "row 1 has int instead of text in 'en'"),
    (pyarrow.table({"en": ["x"], "de": [{"a": 1}]}), "row 1 has dict instead of text in 'de'"),
    (pyarrow.table({"en": pyarrow.Array.from_buffers(pyarrow.string(), 1, [
        None, pyarrow.py_buffer(np.array([0, 1], np.int32)), pyarrow.py_buffer(b"\xff")]), "de": ["x"]}),
     "cannot be read as Parquet"),
], ids=["a number", "a structure", "no UTF-8"])
def test_columns_that_are_no_text(tmp_path: Path, table: Any, message: str) -> None:
    path = str(tmp_path / "train.parquet")
    arrow_parquet.write_table(table, path)
    with pytest.raises(PipelineError, match=message):
        list(parquet.read(parquet.Settings(path, path, path), ("en", "de"))["train"])


def test_a_piece_that_is_no_text() -> None:
    with pytest.raises(PipelineError, match=r"^joint.model: damaged or not a SentencePiece model"):
        Tokenizer([b"\n\x09\n\x02\xff\xbc\x15\0\0\0\0" * 5], ["joint.model"])


# Escapes.

@pytest.mark.parametrize("text", ["\x1b[2J", "a\nerror: b", "\u202e", "\u2028", "\ud800", "\x07", "\x9b31m"])
def test_an_error_is_one_harmless_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["translate", "--model", f"no{text}folder"], ["translate", "--family", "ar", f"-{text}"]):
        try:
            assert main(arguments) == 2
        except SystemExit as ended:  # argparse
            assert ended.code == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert "error: " in error and error.isprintable() and text.encode("unicode_escape").decode() in error


@pytest.mark.parametrize("text", HOSTILE)
def test_a_sample_of_the_page_is_text(text: str) -> None:
    page = _sample(0, Texts([text], [[text], ["lamp"]], {(text, text): [text], ("ar", "greedy"): ["lamp"]},
                            f'en"{text}', f'de"{text}'))
    for tag in ("script", "img", "b onerror"):
        assert f"<{tag}" not in page
    assert page.count('lang="en&quot;') == 1 and "javascript:" not in "".join(page.split("href=")[1:])


@pytest.mark.parametrize("text", HOSTILE)
def test_a_card_takes_text_for_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    params = load_params(ROOT / "params.yaml")
    monkeypatch.chdir(tmp_path)  # which has no reports
    block = replace(params.corpus.home_assistant, version=text)
    corpus = replace(params.corpus, source_language=text, home_assistant=block)
    _, _, body = data_card(replace(params, corpus=corpus), text).split("---\n", 2)
    shown = re.sub(r"^```.*?^```|`[^`\n]*`", "", body, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)[<\]]", shown) and text not in shown
    assert all(line.isprintable() for line in body.splitlines())
