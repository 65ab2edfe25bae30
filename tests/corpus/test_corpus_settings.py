"""The corpus and bpe blocks: built from plain dictionaries as params.yaml holds them, nonsense refused."""

from dataclasses import fields
from typing import Any, get_args

import pytest
from jsonargparse import ArgumentParser

from pipeline.errors import PipelineError
from pipeline.sources import SOURCES
from pipeline.sources.settings import (
    CatalogueSettings,
    CorpusSettings,
    FilesSettings,
    FilterSettings,
    HomeAssistantSettings,
    NoiseSettings,
    Source,
    UaGecSettings,
)

WHEEL: dict[str, Any] = {"version": "1.2", "sha256": "ab" * 32}
FILES = {"train": ["t.en", "t.de"], "validation": ["v.en", "v.de"], "test": ["x.en", "x.de"]}


def parse(block: dict[str, Any]) -> CorpusSettings:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--corpus", type=CorpusSettings)
    return parser.instantiate(parser.parse_object({"corpus": block})).corpus


def test_blocks_are_built_from_plain_dictionaries() -> None:
    settings = parse({"source": "files", "files": FILES, "filters": {"max_words": 80}})
    assert settings.files == FilesSettings(("t.en", "t.de"), ("v.en", "v.de"), ("x.en", "x.de"))
    assert settings.filters == FilterSettings(max_words=80)
    wheel = parse({"source": "home-assistant", "home_assistant": WHEEL})
    assert wheel.home_assistant == HomeAssistantSettings(**WHEEL)
    assert parse({"source": "po", "po": {"files": ["*.po"]}}).po == CatalogueSettings(("*.po",))


@pytest.mark.parametrize("block", [
    {"source": "files", "files": FILES, "filter": {"max_words": 80}},
    {"source": "files", "files": FILES | {"tests": ["a", "b"]}},
    {"source": "files", "files": FILES | {"test": ["only one"]}},
    {"source": "files", "files": FILES, "filters": {"max_words": "many"}},
    {"source": "webcrawl", "files": FILES},
])
def test_unknown_keys_and_wrong_types_are_errors(block: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="corpus"):
        parse(block)


def test_every_source_has_a_reader_and_a_block() -> None:
    assert set(SOURCES) == set(get_args(Source))
    assert {source.replace("-", "_") for source in SOURCES} < {field.name for field in fields(CorpusSettings)}


def test_a_corpus_of_corrections_has_one_language() -> None:
    wheel = {"source": "ua-gec", "source_language": "uk", "target_language": "uk", "ua_gec": WHEEL}
    assert parse({**wheel, "noise": {"copies": 3}}).noise == NoiseSettings(copies=3)
    assert parse(wheel).noise is None
    assert parse({"source": "files", "files": FILES, "source_language": "de"}).target_language == "de"


@pytest.mark.parametrize("build, message", [
    (lambda: CorpusSettings(source="web"), "corpus.source is 'web'; choose one of home-assistant, ua-gec"),
    (lambda: CorpusSettings(source="files"), "block corpus.files is missing"),
    (lambda: CorpusSettings("home-assistant", target_language="en", home_assistant=HomeAssistantSettings(**WHEEL)),
     "are both 'en'"),
    (lambda: CorpusSettings("files", files=FilesSettings(**FILES), noise=NoiseSettings()),
     "corpus.noise makes wrong de of right de, but corpus.source_language is 'en'"),
    (lambda: UaGecSettings("1.2", "xy" * 32), "corpus.ua_gec.sha256 is 'xyxy"),
    (lambda: UaGecSettings(**WHEEL, layer="gec"), "corpus.ua_gec.layer is 'gec'; choose one of gec-only, gec-fluency"),
    (lambda: HomeAssistantSettings("1.2", "abc"), "sha256 is 'abc'"),
    (lambda: CatalogueSettings(("*.po",), test_share=0.97), "leave something for train"),
    (lambda: CatalogueSettings(("*.po",), split_by="line"), "split_by is 'line'; choose one of file, pair"),
    (lambda: FilterSettings(unicode="NFX"), "unicode is 'NFX'"),
    (lambda: FilterSettings(min_words=9, max_words=8), "max_words 8"),
])
def test_nonsense_is_one_line_that_names_the_key(build: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=r"^params\.yaml: ") as caught:
        build()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
