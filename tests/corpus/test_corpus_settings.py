"""The corpus block: built from plain dictionaries as params.yaml holds them, nonsense refused."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources import readers
from pipeline.sources.build import read_splits
from pipeline.sources.catalogues import CatalogueSettings
from pipeline.sources.inputs import describe_inputs
from pipeline.sources.readers import files, home_assistant
from pipeline.sources.settings import CorpusSettings, FilterSettings, NoiseSettings

WHEEL: dict[str, Any] = {"version": "1.2", "sha256": "ab" * 32}
FILES = {"train": ["t.en", "t.de"], "validation": ["v.en", "v.de"], "test": ["x.en", "x.de"]}


def parse(block: dict[str, Any]) -> CorpusSettings:
    return build(CorpusSettings, block, "corpus")


def test_blocks_are_built_from_plain_dictionaries() -> None:
    block = {"source": "files", "files": FILES, "filters": {"max_words": 80}}
    assert parse(block).block == files.Settings(("t.en", "t.de"), ("v.en", "v.de"), ("x.en", "x.de"))
    assert parse(block).filters == FilterSettings(max_words=80)
    assert parse(block) == parse(block)
    wheel = parse({"source": "home-assistant", "home_assistant": WHEEL, "files": FILES})
    assert wheel.block == home_assistant.Settings(**WHEEL)
    assert parse({"source": "po", "po": {"files": ["*.po"]}}).block == CatalogueSettings(("*.po",))


CLIPBOARD = '''
from dataclasses import dataclass
from pipeline.layout import SPLITS

@dataclass(frozen=True)
class Settings:
    text: str

def read(settings, languages):
    return {split: [(settings.text, languages[1])] for split in SPLITS}

def inputs(settings):
    return [settings.text]
'''


def test_a_source_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clip_board.py").write_text(CLIPBOARD, encoding="utf-8")
    monkeypatch.setattr(readers, "__path__", [*readers.__path__, str(tmp_path)])
    added = parse({"source": "clip-board", "clip_board": {"text": "absent"}, "tsv": dict.fromkeys(SPLITS, "t")})
    assert describe_inputs(added)["files"] == [{"path": "absent", "size": None, "sha256": None}]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match=rf"^absent: no such file in {tmp_path}, to which paths .* are relative"):
        read_splits(added)
    (tmp_path / "absent").touch()
    assert read_splits(added)["test"] == [("absent", "de")]


def test_a_corpus_of_corrections_has_one_language() -> None:
    wheel = {"source": "ua-gec", "source_language": "uk", "target_language": "uk", "ua_gec": WHEEL}
    assert parse({**wheel, "noise": {"copies": 3}}).noise == NoiseSettings(copies=3)
    assert parse(wheel).noise is None
    assert parse({"source": "files", "files": FILES, "source_language": "de"}).target_language == "de"


@pytest.mark.parametrize("block, message", [
    ({"source": "files", "files": FILES, "filter": {"max_words": 80}}, "corpus.filter is unknown"),
    ({"source": "files", "files": FILES | {"tests": ["a", "b"]}}, "corpus.files.tests is unknown"),
    ({"source": "files", "files": FILES | {"test": ["only one"]}}, "corpus.files.test has 1 files; name a source"),
    ({"source": "files", "files": FILES, "filters": {"max_words": "many"}}, "corpus.filters.max_words is 'many'"),
    ({"source": "webcrawl"}, "corpus.source is 'webcrawl'; choose one of files, home-assistant, huggingface, m2, "),
    ({"source": "home_assistant", "home_assistant": WHEEL}, "corpus.source is 'home_assistant'; choose one of"),
    ({"source": "ua-gec"}, "block corpus.ua_gec is missing"),
    ({"source": "home-assistant", "target_language": "en", "home_assistant": WHEEL}, "are both 'en'"),
    ({"source": "files", "files": FILES, "noise": {}},
     "corpus.noise makes wrong de of right de, but corpus.source_language is 'en'"),
    ({"source": "ua-gec", "ua_gec": {**WHEEL, "sha256": "xy" * 32}}, "corpus.ua_gec.sha256: 'xyxy"),
    ({"source": "ua-gec", "ua_gec": {**WHEEL, "layer": "gec"}},
     "corpus.ua_gec.layer is 'gec'; choose one of gec-only, gec-fluency"),
    ({"source": "home-assistant", "home_assistant": {**WHEEL, "sha256": "abc"}}, "home_assistant.sha256: 'abc' must"),
    ({"source": "home-assistant", "home_assistant": {**WHEEL, "test_share": 0.97}},
     "corpus.home_assistant.validation_share: 0.04 and test_share 0.97 must leave something for train"),
    ({"source": "po", "po": {"files": ["*.po"], "test_share": 0.97}}, "leave something for train"),
    ({"source": "po", "po": {"files": ["*.po"], "split_by": "line"}}, "split_by is 'line'; choose one of file, pair"),
    ({"source": "files", "files": FILES, "filters": {"unicode": "NFX"}}, "unicode is 'NFX'"),
    ({"source": "files", "files": FILES, "filters": {"min_words": 9, "max_words": 8}}, "max_words 8"),
])
def test_nonsense_is_one_line_that_names_the_key(block: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=r"^params\.yaml: ") as caught:
        parse(block)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
