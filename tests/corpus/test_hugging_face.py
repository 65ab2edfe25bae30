"""The `datasets` reader against a stand-in for the library, which is not a development dependency."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.build import read_splits
from pipeline.sources.settings import CorpusSettings

NESTED = {"train": [{"translation": {"en": "a fox", "de": "ein Fuchs"}}],
          "dev": [{"translation": {"en": "b", "de": None}}],
          "test": []}
REFERENCES = {"reference2": "He went home", "reference3": None}


class DatasetsError(Exception):
    pass


class DatasetGenerationError(DatasetsError):
    pass


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Install the stand-in; return the list of its calls."""
    calls: list[tuple[Any, ...]] = []

    def load_dataset(name: str, config: str | None, split: str, revision: str | None) -> list[dict[str, Any]]:
        calls.append((name, config, split, revision))
        if name == "flat":
            return [{"en": "a", "de": "b"}]
        if name == "corrections":
            return [{"source": "he go home", "target": "He goes home", **REFERENCES}]
        if name == "damaged":
            raise DatasetGenerationError("An error occurred") from ValueError("parse error\nin row 5")
        if name == "refused":
            raise DatasetsError("cannot be used")
        if split not in NESTED:
            raise ValueError(f'Unknown split "{split}".\nShould be one of {sorted(NESTED)}')
        return NESTED[split]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(
        load_dataset=load_dataset, exceptions=SimpleNamespace(
            DatasetsError=DatasetsError, DatasetGenerationError=DatasetGenerationError)))
    return calls


def settings_for(target_language: str = "de", **block: Any) -> CorpusSettings:
    return build(CorpusSettings, {"source": "huggingface", "target_language": target_language, "huggingface": block},
                 "corpus")


def test_splits_come_from_the_translation_column(library: list[tuple[Any, ...]]) -> None:
    splits = read_splits(settings_for(name="toy", config="de-en", revision="v1", validation="dev"))
    assert {split: list(splits[split]) for split in SPLITS} == {
        "train": [("a fox", "ein Fuchs")], "validation": [("b", "")], "test": []}
    assert library == [("toy", "de-en", split, "v1") for split in ("train", "dev", "test")]


@pytest.mark.parametrize("field", [None, ""])
def test_languages_may_be_columns(library: list[tuple[Any, ...]], field: str | None) -> None:
    assert list(read_splits(settings_for(name="flat", field=field))["train"]) == [("a", "b")]


@pytest.mark.parametrize("field", ["translation", "en"])
def test_a_wrong_field_lists_the_columns(library: list[tuple[Any, ...]], field: str) -> None:
    with pytest.raises(PipelineError, match=r"row 1 has the columns en, de"):
        list(read_splits(settings_for(name="flat", field=field))["train"])


def test_corrections_are_columns_and_only_test_has_further_references(library: list[tuple[Any, ...]]) -> None:
    splits = read_splits(settings_for("en", name="corrections", field=""))
    pair = "he go home", "He goes home"
    assert [list(splits[split]) for split in SPLITS] == [[pair], [pair], [(*pair, "He went home", "")]]


@pytest.mark.parametrize(("name", "message"), [
    ("toy", r"split 'validation' of toy .*Unknown split"),
    ("damaged", r"split 'train' of damaged cannot be loaded \(parse error in row 5\)"),
    ("refused", r"split 'train' of refused cannot be loaded \(cannot be used\)"),
])
def test_what_cannot_be_loaded_is_one_line(library: list[tuple[Any, ...]], name: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as caught:
        read_splits(settings_for(name=name))
    assert "\n" not in str(caught.value)


def test_the_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(PipelineError, match=r"fast-nmt-decoding\[huggingface\]"):
        read_splits(settings_for(name="toy"))
