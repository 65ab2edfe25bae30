"""The larger corpus, from tiny wheels with gettext catalogues."""

import hashlib
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_home_assistant import integrations
from test_home_assistant import write_wheel as write_home_assistant

from pipeline.blocks import build
from pipeline.checksums import SUMS
from pipeline.errors import PipelineError
from pipeline.interop.cards import data_card, licence_of
from pipeline.layout import SPLITS
from pipeline.params import load_params
from pipeline.sources.build import build_corpus, read_splits
from pipeline.sources.readers import wheels
from pipeline.sources.settings import CorpusSettings

PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#, fuzzy
msgid "A guess at best"
msgstr "Bestenfalls geraten"

msgctxt "menu"
msgid "Open the {kind}"
msgstr "{kind} öffnen"
"""


def compiled(texts: dict[str, str], form: str = "<") -> bytes:
    """A catalogue as msgfmt compiles it; "\\0" and "\\4" separate plurals and contexts."""
    table, pool, start = b"", b"", 28 + 16 * len(texts)
    for side in (list(texts), list(texts.values())):
        for text in side:
            content = text.encode()
            table += struct.pack(f"{form}2I", len(content), start + len(pool))
            pool += content + b"\0"
    head = struct.pack(f"{form}7I", 0x950412DE, 0, len(texts), 28, 28 + 8 * len(texts), 0, 0)
    return head + table + pool


HEADER = {"": "Content-Type: text/plain; charset=UTF-8\n"}


def write_wheel(folder: Path, name: str, members: dict[str, bytes | str]) -> dict[str, str]:
    """Write a wheel and return its block of params.yaml."""
    wheel = folder / f"{name}-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, content in members.items():
            archive.writestr(f"{name}/{member}", content)
    return {"version": "1.2", "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(), "licence": f"{name.upper()}-2"}


@pytest.fixture(autouse=True)
def no_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hand out the wheels in `tmp_path` instead of running pip."""
    monkeypatch.setattr("pipeline.sources.wheel.download_wheel",
                        lambda package, version, folder: tmp_path / f"{package}-{version}-py3-none-any.whl")


def settings_for(packages: dict[str, dict[str, str]], **changed: Any) -> CorpusSettings:
    block = {"source": "wheels", "wheels": {"packages": packages, **changed.pop("wheels", {})}, **changed}
    return build(CorpusSettings, block, "corpus")


@pytest.mark.parametrize("form", ["<", ">"])
def test_catalogues_of_both_forms_are_read(tmp_path: Path, form: str) -> None:
    """The text is read where there are both; of regions only the language's own; plurals become two pairs."""
    texts = {**HEADER, "One room": "Ein Raum", "menu\4Close it": "Schließen",
             "%d guest\0%d guests": "%d Gast\0%d Gäste", "Not yet": ""}
    write_wheel(tmp_path, "inn", {
        "locale/de/LC_MESSAGES/inn.mo": compiled(texts, form), "locale/de/LC_MESSAGES/menu.po": PO,
        "locale/de/LC_MESSAGES/menu.mo": compiled({"No": "Nein"}), "locale/de_AT/LC_MESSAGES/inn.mo": b"not read",
        "locale/fr/LC_MESSAGES/inn.mo": compiled({"One room": "Une chambre"}), "locale/de/notes.po": "not read"})
    wheel = tmp_path / "inn-1.2-py3-none-any.whl"
    assert wheels.read_wheel(wheel, "de") == [
        ("One room", "Ein Raum"), ("Close it", "Schließen"), ("%d guest", "%d Gast"), ("%d guests", "%d Gäste"),
        ("Open the {kind}", "{kind} öffnen")]
    assert wheels.read_wheel(wheel, "fr") == [("One room", "Une chambre")]
    with pytest.raises(PipelineError, match=r"^inn-1\.2\S*: no catalogue of the language 'pt'; it has de, de_AT, fr: "):
        wheels.read_wheel(wheel, "pt")


def test_a_language_may_be_named_with_its_country(tmp_path: Path) -> None:
    write_wheel(tmp_path, "inn", {"de_DE/LC_MESSAGES/a.po": PO, "de_CH/LC_MESSAGES/a.mo": b"not read"})
    assert wheels.read_wheel(tmp_path / "inn-1.2-py3-none-any.whl", "de") == [("Open the {kind}", "{kind} öffnen")]


def catalogue(name: str, *further: tuple[str, str]) -> dict[str, bytes | str]:
    texts = {f"The {name} has {number} rooms": f"{name} hat {number} Räume" for number in range(5)}
    return {"locale/de/LC_MESSAGES/it.mo": compiled({**HEADER, **texts, **dict(further)})}


def test_a_project_is_in_one_split(tmp_path: Path) -> None:
    names = [f"inn{number}" for number in range(10)]
    settings = settings_for({name: write_wheel(tmp_path, name, catalogue(name)) for name in names},
                            wheels={"validation_share": 0.2, "test_share": 0.3})
    splits = {split: list(pairs) for split, pairs in read_splits(settings).items()}
    owners = {split: {source.split()[1] for source, _ in pairs} for split, pairs in splits.items()}
    assert [len(owners[split]) for split in SPLITS] == [5, 2, 3] and len(set().union(*owners.values())) == 10
    assert sum(map(len, splits.values())) == 50


def test_the_test_set_of_the_default_corpus_stays_and_is_never_trained_on(tmp_path: Path) -> None:
    """Neither under another spelling of its spaces; validation likewise."""
    translations = integrations(40)
    for index in range(40):
        translations[f"maker{index}/translations/en"] = {"title": f"Boil kettle {index}"}
    wheel = write_home_assistant(tmp_path, translations)
    base = {"version": "1.2", "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(), "validation_share": 0.2,
            "test_share": 0.2}
    default = build(CorpusSettings, {"source": "home-assistant", "home_assistant": base}, "corpus")
    leaks = [(f"Boil  kettle\u00a0{index}", f"Kessel {index} verraten") for index in range(40)]
    larger = settings_for({"inn": write_wheel(tmp_path, "inn", catalogue("inn", *leaks))}, wheels={
        "home_assistant": base})
    for settings, name in ((default, "default"), (larger, "larger")):
        build_corpus(settings, tmp_path / name, tmp_path / f"{name}.json")
    texts = {name: {path.name: path.read_text().splitlines() for path in (tmp_path / name).iterdir()}
             for name in ("default", "larger")}
    evaluated = {name for name in texts["default"] if not name.startswith(("train", SUMS))}
    assert len(evaluated) == 4 and all(texts["larger"][name] == texts["default"][name] for name in evaluated)
    trained, before = (texts[name]["train.source"] for name in ("larger", "default"))
    assert len(trained) == 24 + 24 + 5 and set(before) < set(trained)  # 24 known sources have a second translation
    assert not set(trained) & {*texts["default"]["test.source"], *texts["default"]["validation.source"]}


@pytest.mark.parametrize(("content", "reason"), [
    (b"", "not a complete gettext catalogue"), (b"\0" * 40, "not a compiled gettext catalogue"),
    (compiled({"One room": "Ein Raum"})[:-5], "the file ends within a text"),
    (compiled({"One room": "Ein Raum"})[:24], "not a complete gettext catalogue"),
    (compiled({"One room": "Ein Raum"}).replace(b"Raum", b"R\xe4um"), "utf-8"),
    ])
def test_a_damaged_catalogue_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    write_wheel(tmp_path, "inn", {"de/LC_MESSAGES/a.mo": content})
    with pytest.raises(PipelineError, match=rf"^inn-1\.2\S*: inn/de/LC_MESSAGES/a\.mo cannot be read .*{reason}"):
        wheels.read_wheel(tmp_path / "inn-1.2-py3-none-any.whl", "de")


def test_the_originals_are_english(tmp_path: Path) -> None:
    settings = settings_for({"inn": write_wheel(tmp_path, "inn", {})}, source_language="fr")
    with pytest.raises(PipelineError, match="source_language is 'fr', but the catalogues translate from 'en'; set it"):
        read_splits(settings)


def test_the_card_lists_every_licence(workspace: Path) -> None:
    digest = "0" * 64
    corpus = settings_for({"inn": {"version": "3", "sha256": digest, "licence": "MIT"}},
                          wheels={"home_assistant": {"version": "7", "sha256": digest}})
    card = data_card(replace(load_params(), corpus=corpus), licence_of(corpus, None))
    assert "license: other" in card and "| inn 3 | MIT |" in card and "| homeassistant 7 | apache-2.0 |" in card
