"""What the corpus is made of: every file of the user's, so that a change of any of them is noticed."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.sources.inputs import describe_inputs
from pipeline.sources.settings import (
    CatalogueSettings,
    CorpusSettings,
    FilesSettings,
    HomeAssistantSettings,
    HuggingFaceSettings,
    TsvSettings,
    UaGecSettings,
)

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
    return CorpusSettings(source=source, **block)


def test_files_are_listed_split_by_split() -> None:
    block = FilesSettings(*(tuple(PATHS[first:first + 2]) for first in (0, 2, 4)))
    described = describe_inputs(settings_for("files", files=block))
    assert described == {"source": "files", "files": [entry(path) for path in PATHS]}
    assert json.loads(json.dumps(described)) == described


def test_tsv_files_are_listed() -> None:
    described = describe_inputs(settings_for("tsv", tsv=TsvSettings("c/train.en", "c/validation.en", "c/test.en")))
    assert described["files"] == [entry(path) for path in PATHS[::2]]


@pytest.mark.parametrize("source", ["po", "tmx"])
def test_catalogues_are_listed_once_in_the_order_of_their_paths(source: str) -> None:
    block = CatalogueSettings(("c/train.*", "c/test.de", "c/train.de", "c/none*"))
    assert describe_inputs(settings_for(source, **{source: block}))["files"] == [
        {"path": "c/none*", "size": None, "sha256": None}, *map(entry, ["c/test.de", "c/train.de", "c/train.en"])]


@pytest.mark.parametrize("change", [lambda path: path.write_text("c/train.eN"), Path.unlink,
                                    lambda path: path.rename("c/other.en")], ids=["edited", "removed", "renamed"])
def test_every_change_shows(change: Any) -> None:
    settings = settings_for("po", po=CatalogueSettings(("c/*.en",)))
    before = describe_inputs(settings)
    change(Path("c/train.en"))
    assert describe_inputs(settings) != before


def test_what_cannot_be_read_is_absent_and_no_error(folder: Path) -> None:
    (folder / "c/train.en").unlink()
    (folder / "c/test.en").unlink()
    (folder / "c/test.en").mkdir()
    described = describe_inputs(settings_for("tsv", tsv=TsvSettings("c/train.en", "c/validation.en", "c/test.en")))
    absent = {"size": None, "sha256": None}
    assert described["files"] == [{"path": "c/train.en", **absent}, entry("c/validation.en"),
                                  {"path": "c/test.en", **absent}]


def test_a_local_data_set_is_listed_and_one_on_the_hub_is_not(folder: Path) -> None:
    (folder / "c/.git").mkdir()
    (folder / "c/.git/index").touch()
    block = HuggingFaceSettings(name="c")
    described = describe_inputs(settings_for("huggingface", huggingface=block))
    assert described["files"] == [entry(path) for path in sorted(PATHS)]
    block = HuggingFaceSettings(name="someone/some-data")
    assert describe_inputs(settings_for("huggingface", huggingface=block))["files"] == []


def test_packages_are_named_by_their_hash_in_the_settings() -> None:
    for source, block in (("home-assistant", {"home_assistant": HomeAssistantSettings("1.2", "0" * 64)}),
                          ("ua-gec", {"ua_gec": UaGecSettings("1.2", "0" * 64)})):
        assert describe_inputs(settings_for(source, **block)) == {"source": source, "files": []}


def test_describing_is_quick_to_import() -> None:
    program = ("import sys, pipeline.sources.inputs; "
               "print({'torch', 'numpy', 'numba', 'lxml', 'datasets'} & set(sys.modules))")
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                              cwd=Path(__file__).parents[2])
    assert finished.stdout.strip() == "set()"
