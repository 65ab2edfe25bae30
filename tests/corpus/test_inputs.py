"""What the corpus is made of: every file of the user's, so that a change of any of them is noticed."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.blocks import build
from pipeline.sources.inputs import describe_inputs
from pipeline.sources.settings import CorpusSettings

PATHS = ["c/train.en", "c/train.de", "c/validation.en", "c/validation.de", "c/test.en", "c/test.de"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some files, and the working directory in which they are found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").mkdir()
    for path in PATHS:
        (tmp_path / path).write_text(path, encoding="utf-8")
    return tmp_path


def entry(path: str) -> dict[str, Any]:
    return {"path": path, "size": len(path), "sha256": hashlib.sha256(path.encode()).hexdigest()}


def settings_for(source: str, **block: Any) -> CorpusSettings:
    return build(CorpusSettings, {"source": source, source.replace("-", "_"): block}, "corpus")


TSV = settings_for("tsv", train="c/train.en", validation="c/validation.en", test="c/test.en")


def test_files_are_listed_split_by_split() -> None:
    described = describe_inputs(settings_for("files", train=PATHS[:2], validation=PATHS[2:4], test=PATHS[4:]))
    assert described == {"source": "files", "files": [entry(path) for path in PATHS]}
    assert json.loads(json.dumps(described)) == described


def test_tsv_files_are_listed() -> None:
    described = describe_inputs(TSV)
    assert described["files"] == [entry(path) for path in PATHS[::2]]


@pytest.mark.parametrize("source", ["po", "tmx"])
def test_catalogues_are_listed_once_in_the_order_of_their_paths(source: str) -> None:
    files = ["c/train.*", "c/test.de", "c/train.de", "c/none*"]
    assert describe_inputs(settings_for(source, files=files))["files"] == [
        {"path": "c/none*", "size": None, "sha256": None}, *map(entry, ["c/test.de", "c/train.de", "c/train.en"])]


@pytest.mark.parametrize("change", [lambda path: path.write_text("c/train.eN"), Path.unlink,
                                    lambda path: path.rename("c/other.en")], ids=["edited", "removed", "renamed"])
def test_every_change_shows(change: Any) -> None:
    settings = settings_for("po", files=["c/*.en"])
    before = describe_inputs(settings)
    change(Path("c/train.en"))
    assert describe_inputs(settings) != before


def test_what_cannot_be_read_is_absent_and_no_error(folder: Path) -> None:
    (folder / "c/train.en").unlink()
    (folder / "c/test.en").unlink()
    (folder / "c/test.en").mkdir()
    described = describe_inputs(TSV)
    absent = {"size": None, "sha256": None}
    assert described["files"] == [{"path": "c/train.en", **absent}, entry("c/validation.en"),
                                  {"path": "c/test.en", **absent}]


def test_a_local_data_set_is_listed_and_one_on_the_hub_is_not(folder: Path) -> None:
    (folder / "c/.git").mkdir()
    (folder / "c/.git/index").touch()
    described = describe_inputs(settings_for("huggingface", name="c"))
    assert described["files"] == [entry(path) for path in sorted(PATHS)]
    assert describe_inputs(settings_for("huggingface", name="someone/some-data"))["files"] == []


def test_packages_are_named_by_their_hash_in_the_settings() -> None:
    for source in ("home-assistant", "ua-gec"):
        assert describe_inputs(settings_for(source, version="1.2", sha256="0" * 64)) == {"source": source, "files": []}


def test_describing_is_quick_to_import() -> None:
    program = ("import sys, pipeline.sources.inputs; "
               "pipeline.sources.settings.CorpusSettings.variant({}, 'corpus'); "
               "print({'torch', 'numpy', 'numba', 'lxml', 'datasets'} & set(sys.modules))")
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                              cwd=Path(__file__).parents[2])
    assert finished.stdout.strip() == "set()"
