"""Gettext and translation-memory files."""

import sys
from pathlib import Path
from typing import Any

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.build import read_splits
from pipeline.sources.monolingual import read_monolingual
from pipeline.sources.readers.po import read_catalogue
from pipeline.sources.readers.tmx import read_memory
from pipeline.sources.settings import CorpusSettings
from pipeline.sources.splits import assign_groups

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
    return build(CorpusSettings, {"source": source, source: block}, "corpus")


def test_po_gives_the_finished_entries(tmp_path: Path) -> None:
    (tmp_path / "de.po").write_text(PO, encoding="utf-8")
    assert list(read_catalogue(str(tmp_path / "de.po"))) == [
        ('Open the "attic" door', "Öffne die Dachbodentür"), ("%d jar", "%d Glas"), ("%d jars", "%d Gläser")]


@pytest.mark.parametrize("comment", ["# the end", "#:", "#,", "#~ msgid"])
def test_po_cut_within_a_comment_keeps_the_last_entry(tmp_path: Path, comment: str) -> None:
    (tmp_path / "de.po").write_text(f'msgid "first"\nmsgstr "erstes"\n\nmsgid "last"\nmsgstr "letztes"\n\n{comment}',
                                    encoding="utf-8")
    assert list(read_catalogue(str(tmp_path / "de.po"))) == [("first", "erstes"), ("last", "letztes")]


def test_po_cut_within_an_entry_is_refused_with_its_line(tmp_path: Path) -> None:
    """Cut between two strings of one translation it is a whole catalogue, and nothing tells."""
    path, text = tmp_path / "de.po", 'msgid "one"\nmsgstr "eins"\n\nmsgctxt "c"\nmsgid "two"\nmsgstr "zwei"\n'
    whole = {text.index("\n\n") + extra for extra in range(3)} | {len(text) - 1, len(text)}
    for end in range(text.index("\n\n") + 1, len(text) + 1):
        path.write_text(text[:end], encoding="utf-8")
        if end in whole:
            assert next(read_catalogue(str(path))) == ("one", "eins")
        else:
            with pytest.raises(PipelineError, match=rf"de\.po:{text[:end - 1].count(chr(10)) + 1}: "):
                list(read_catalogue(str(path)))


@settings(max_examples=40)
@given(st.data())
def test_po_agrees_with_polib(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """An independent reader, but for two mistakes of its own: a comment at the end and an empty plural."""
    string = st.lists(st.sampled_from(["a", "ß", r"\n", r"\"", r"\\", r"\a", " ", "#", "\u2028", "msgid"]), max_size=5)
    strings = st.lists(string.map("".join), min_size=1, max_size=3).map(
        lambda parts: "\n".join(f'"{part}"' for part in parts))
    comments = st.lists(st.sampled_from(["# t", "#. g", "#: a.c:3", "#, fuzzy", "#, c-format, fuzzy", '#| msgid "x"']),
                        max_size=2)
    text = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n\n'
    for number in range(data.draw(st.integers(0, 4))):
        lines = ['msgctxt "c"'] * data.draw(st.integers(0, 1)) + [f'msgid "{number}"', data.draw(strings)]
        forms = data.draw(st.integers(0, 3))
        lines += [f'msgid_plural "{number}"'] * bool(forms)
        lines += [f"msgstr[{form}] {data.draw(strings)}" for form in range(forms)] or [f"msgstr {data.draw(strings)}"]
        obsolete = "#~ " * data.draw(st.booleans())
        text += "".join(f"{line}\n" for line in data.draw(comments))
        text += "".join(f"{obsolete}{line}\n" for line in "\n".join(lines).split("\n"))
        text += "\n" * data.draw(st.integers(0, 2))
    path = tmp_path_factory.mktemp("po") / "de.po"
    path.write_text(text, encoding="utf-8")
    expected = []
    for entry in polib.pofile(str(path), encoding="utf-8").translated_entries():
        forms = [entry.msgstr_plural[index] for index in sorted(entry.msgstr_plural)] or [entry.msgstr]
        expected.append((entry.msgid, forms[0]))
        if entry.msgid_plural:
            expected.append((entry.msgid_plural, forms[-1]))
    assert list(read_catalogue(str(path))) == expected


@pytest.mark.parametrize(("lines", "number", "reason"), [
    ('msgid "a"\nmsgid_plural "b"\nmsgstr "c"\n', 3, "msgstr after msgid_plural"),
    ('msgid "a"\nmsgstr[0] "c"\n', 2, r"msgstr\[0\] after msgid"),
    ('msgid "a"\nmsgid_plural "b"\nmsgstr[1] "c"\n', 3, r"msgstr\[1\] where msgstr\[0\] is expected"),
    ('msgid "a"\nmsgid "b"\n', 2, "msgid after msgid"),
    ('msgstr "b"\n', 1, "msgstr after the end of an entry"),
    ('"b"\n', 1, "a string without a keyword"),
    ('msgid "a"\nmsgstr "say "b""\n', 2, "not a line of a gettext catalogue"),
    ('msgid "a"\nmsgstr "b\n', 2, "its string is not closed"),
    ('msgid "a"\n# nothing else\n', 2, "the file ends before the translation"),
])
def test_po_mistakes_are_named_with_their_line(tmp_path: Path, lines: str, number: int, reason: str) -> None:
    (tmp_path / "de.po").write_text(lines, encoding="utf-8")
    with pytest.raises(PipelineError, match=rf"de\.po:{number}: .*{reason}.*msgfmt -c") as caught:
        list(read_catalogue(str(tmp_path / "de.po")))
    assert "\n" not in str(caught.value)


def test_tmx_gives_the_words_of_both_languages(tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(TMX, encoding="utf-8")
    assert list(read_memory(str(tmp_path / "m.tmx"), "en", "de")) == [
        ("Press start twice.", "Zweimal Start & los."), ("Plain", "Schlicht"), ("", "Leer davor")]
    assert list(read_memory(str(tmp_path / "m.tmx"), "en-GB", "de")) == [("Regional", "Schlicht")]


def with_entities(folder: Path, declarations: str, text: str) -> str:
    """A memory whose second English segment has this text."""
    content = TMX.replace("?>", f"?><!DOCTYPE tmx {declarations}>", 1).replace("Plain", text)
    (folder / "m.tmx").write_text(content, encoding="utf-8")
    return str(folder / "m.tmx")


def test_tmx_entities_become_their_text(tmp_path: Path) -> None:
    path = with_entities(tmp_path, '[<!ENTITY firm "Otter &#38;amp; Söhne"><!ENTITY code "<ph>{n}</ph> jars">]',
                         "&firm; &lt;&#228;&#xDF;&gt; &code;")
    assert list(read_memory(path, "en", "de"))[1] == ("Otter & Söhne <äß>  jars", "Schlicht")


@pytest.mark.parametrize("declarations", ['[<!ENTITY leak SYSTEM "{}">]', '[<!ENTITY % more SYSTEM "{}"> %more;]',
                                          'SYSTEM "{}"'])
def test_tmx_never_reads_other_files_and_says_so(tmp_path: Path, declarations: str) -> None:
    (tmp_path / "secret").write_text('<!ENTITY leak "hidden words">', encoding="utf-8")
    path = with_entities(tmp_path, declarations.format((tmp_path / "secret").as_uri()), "Plain &leak;")
    with pytest.raises(PipelineError, match=r"m\.tmx: not a readable .*Entity '(leak|more)' not defined, line \d+"
                                            ".*entities of other files are not read") as caught:
        list(read_memory(path, "en", "de"))
    assert "hidden" not in str(caught.value)


def test_tmx_entities_do_not_grow_without_bounds(tmp_path: Path) -> None:
    tenfold = "".join(f'<!ENTITY e{level + 1} "{f"&e{level};" * 10}">' for level in range(9))
    path = with_entities(tmp_path, f'[<!ENTITY e0 "ten letters">{tenfold}]', "&e9;")
    with pytest.raises(PipelineError, match=r"m\.tmx: not a readable"):
        list(read_memory(path, "en", "de"))


def test_po_splits_by_file(tmp_path: Path) -> None:
    for index in range(10):
        (tmp_path / f"{index}").mkdir()
        entry = f'msgid "part {index}"\nmsgstr "Teil {index}"\n'
        (tmp_path / f"{index}" / "de.po").write_text(entry, encoding="utf-8")
    splits = read_splits(settings_for("po", files=(str(tmp_path / "**" / "de.po"),), test_share=0.3))
    parts = {split: list(splits[split]) for split in SPLITS}
    assert [len(parts[split]) for split in SPLITS] == [6, 1, 3]
    assert len({pair for pairs in parts.values() for pair in pairs}) == 10


def test_po_gives_what_is_not_translated_yet(tmp_path: Path) -> None:
    """Of the files of train alone, and what the built corpus has as a source nowhere."""
    for index in range(5):
        (tmp_path / f"{index}.po").write_text(PO.replace("Untranslated", f"Not translated yet {index}").replace(
            "Perhaps", "Perhaps the attic door"), encoding="utf-8")
    settings = settings_for("po", files=(str(tmp_path / "*.po"),))
    for split in SPLITS:
        (tmp_path / f"{split}.source").write_text("Perhaps the attic door\n" if split == "test" else "")
    split_of = assign_groups([str(tmp_path / f"{index}.po") for index in range(5)], 0.04, 0.04)
    trained = sorted(Path(path).stem for path, split in split_of.items() if split == "train")
    assert list(read_monolingual(settings, tmp_path)) == [f"Not translated yet {index}" for index in trained]


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
    with pytest.raises(PipelineError, match=r"de\.po:\d: ") as caught:
        list(read_catalogue(str(tmp_path / "de.po")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", TMX[:-20], TMX.replace("</seg>", "", 1), "no markup"])
def test_a_broken_memory_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.tmx").write_text(content, encoding="utf-8")
    with pytest.raises(PipelineError, match=r"m\.tmx: not a readable") as caught:
        list(read_memory(str(tmp_path / "m.tmx"), "en", "de"))
    assert "\n" not in str(caught.value)


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    for read in read_catalogue, lambda path: read_memory(path, "en", "de"):
        with pytest.raises(PipelineError, match=f"{tmp_path}: ") as caught:
            list(read(str(tmp_path)))
        assert "\n" not in str(caught.value)


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(PipelineError, match=r"pip install 'fast-nmt-decoding\["):
        list(read_memory("any", "en", "de"))
