"""Gettext and translation-memory files."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.corpus.settings import CatalogueSettings, CorpusSettings
from pipeline.corpus.sources import SPLITS, read_splits
from pipeline.corpus.sources.po import read_catalogue
from pipeline.corpus.sources.tmx import read_memory
from pipeline.errors import PipelineError

PO = r'''msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\n"

msgid "Open the \"attic\" door"
msgstr "Öffne die "
"Dachbodentür"

#, fuzzy
msgid "Perhaps"
msgstr "Vielleicht"

msgid "Untranslated"
msgstr ""

msgid "%d jar"
msgid_plural "%d jars"
msgstr[0] "%d Glas"
msgstr[1] "%d Gläser"

#~ msgid "Obsolete"
#~ msgstr "Veraltet"
'''

TMX = '''<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US">
      <seg>Press <bpt i="1">&lt;b&gt;</bpt>start<ept i="1">&lt;/b&gt;</ept> <hi>twice</hi>.</seg></tuv>
    <tuv xml:lang="DE"><seg>Zweimal Start &amp; los.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Plain</seg></tuv><tuv xml:lang="en-GB"><seg>Regional</seg></tuv>
    <tuv lang="de"><seg>Schlicht</seg></tuv><tuv xml:lang="den"><seg>Slavey</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg/></tuv><tuv xml:lang="de"><seg>Leer<!-- a note --> davor</seg></tuv></tu>
</body></tmx>
'''


def settings_for(source: str, **block: Any) -> CorpusSettings:
    return CorpusSettings(source=source, **{source: CatalogueSettings(**block)})


def test_po_gives_the_finished_entries(tmp_path: Path) -> None:
    (tmp_path / "de.po").write_text(PO, encoding="utf-8")
    assert list(read_catalogue(str(tmp_path / "de.po"))) == [
        ('Open the "attic" door', "Öffne die Dachbodentür"), ("%d jar", "%d Glas"), ("%d jars", "%d Gläser")]


def test_tmx_gives_the_words_of_both_languages(tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(TMX, encoding="utf-8")
    assert list(read_memory(str(tmp_path / "m.tmx"), "en", "de")) == [
        ("Press start twice.", "Zweimal Start & los."), ("Plain", "Schlicht"), ("", "Leer davor")]
    assert list(read_memory(str(tmp_path / "m.tmx"), "en-GB", "de")) == [("Regional", "Schlicht")]


def test_tmx_never_reads_other_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden words", encoding="utf-8")
    entity = f'<!DOCTYPE tmx [<!ENTITY leak SYSTEM "{(tmp_path / "secret").as_uri()}">]>'
    text = TMX.replace("?>", "?>" + entity, 1).replace("Plain", "Plain &leak;")
    (tmp_path / "m.tmx").write_text(text, encoding="utf-8")
    assert "hidden" not in str(list(read_memory(str(tmp_path / "m.tmx"), "en", "de")))


def test_po_splits_by_file(tmp_path: Path) -> None:
    for index in range(10):
        (tmp_path / f"{index}").mkdir()
        entry = f'msgid "part {index}"\nmsgstr "Teil {index}"\n'
        (tmp_path / f"{index}" / "de.po").write_text(entry, encoding="utf-8")
    splits = read_splits(settings_for("po", files=(str(tmp_path / "**" / "de.po"),), test_share=0.3))
    parts = {split: list(splits[split]) for split in SPLITS}
    assert [len(parts[split]) for split in SPLITS] == [6, 1, 3]
    assert len({pair for pairs in parts.values() for pair in pairs}) == 10


def test_tmx_splits_by_pair(tmp_path: Path) -> None:
    unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
    units = "".join(unit.format(number // 2, number) for number in range(400))
    (tmp_path / "m.tmx").write_text(f"<tmx><body>{units}</body></tmx>", encoding="utf-8")
    splits = read_splits(settings_for("tmx", files=(str(tmp_path / "m.tmx"),), split_by="pair",
                                      validation_share=0.2, test_share=0.2))
    sources = {split: [source for source, _ in splits[split]] for split in SPLITS}
    assert sum(map(len, sources.values())) == 400
    assert all(len(found) > 20 for found in sources.values())
    assert not set(sources["train"]) & set(sources["test"])


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(TMX, encoding="utf-8")
    path = str(tmp_path / "m.tmx")
    splits = read_splits(settings_for("tmx", files=(path, path), split_by="pair"))
    assert sum(len(list(splits[split])) for split in SPLITS) == 3


def test_a_pattern_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"nowhere\*\.po: no such file"):
        read_splits(settings_for("po", files=(str(tmp_path / "nowhere*.po"),)))


def test_one_file_cannot_be_split_by_file(tmp_path: Path) -> None:
    (tmp_path / "de.po").write_text(PO, encoding="utf-8")
    with pytest.raises(PipelineError, match="split_by: pair"):
        read_splits(settings_for("po", files=(str(tmp_path / "de.po"),)))


@pytest.mark.parametrize("content", [b'msgid "one"\nnonsense\n', b'msgid "caf\xe9"\nmsgstr "x"\n'])
def test_a_broken_catalogue_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "de.po").write_bytes(content)
    with pytest.raises(PipelineError, match=r"de\.po: ") as caught:
        list(read_catalogue(str(tmp_path / "de.po")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", TMX[:-20], TMX.replace("</seg>", "", 1), "no markup"])
def test_a_broken_memory_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.tmx").write_text(content, encoding="utf-8")
    with pytest.raises(PipelineError, match=r"m\.tmx: not a readable") as caught:
        list(read_memory(str(tmp_path / "m.tmx"), "en", "de"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("module, read", [
    ("polib", read_catalogue), ("lxml", lambda path: read_memory(path, "en", "de"))])
def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, module: str,
                                                read: Any) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PipelineError, match=r"pip install 'fast-nmt-decoding\["):
        list(read("any"))
