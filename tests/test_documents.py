"""`translate` of documents: what has no translation gets one, all else stays, and what was lost is marked."""

import gzip
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli import main
from pipeline.documents.segments import Segment, splitter, translate_segments, whole_line
from pipeline.errors import PipelineError
from pipeline.extras import missing
from pipeline.placeholders import lost_placeholders
from pipeline.sources.readers.po import read_catalogue
from pipeline.sources.readers.tmx import read_memory
from pipeline.translation import Translation

Translate = Callable[..., tuple[int, bytes, str]]


def reversed_words(sentences: list[str]) -> Iterator[Translation]:
    """A translator that reverses the words of a sentence, and loses the placeholder {lost}."""
    assert all(sentence.strip() == sentence != "" for sentence in sentences)
    for sentence in sentences:
        words = " ".join(word for word in reversed(sentence.split()) if word != "{lost}")
        yield Translation(sentence, [words], None, 1, "cut" if "cut" in words else None)


def unchanged(sentences: list[str]) -> Iterator[Translation]:
    return (Translation(sentence, [sentence], None, 1) for sentence in sentences)


@pytest.mark.parametrize(("text", "expected"), [
    ("", ""), ("one two", "two one"), ("\n\n", "\n\n"), ("  \t", "  \t"),
    ("\none two\n\n  three four \nfive", "\ntwo one\n\n  four three \nfive"),
    ("one two\r\nthree four\r\n", "two one\r\nfour three\r\n"),
    pytest.param(f"one{' ' * 100_000}two", "two one", id="a run that takes no time")])
def test_white_space_between_lines_stays(text: str, expected: str) -> None:
    segment, = translate_segments([text], whole_line, reversed_words)
    assert (segment.source, segment.text, segment.warnings) == (text, expected, ())


@given(st.text(" \n\t\ra"))
def test_lines_are_what_is_between_line_ends_and_their_white_space(text: str) -> None:
    segment, = translate_segments([text], whole_line, lambda lines: (Translation(line, [f"<{line}>"], None, 1)
                                                                     for line in lines))
    lines = [line.strip() for line in text.split("\n")]
    assert re.findall("<(.*?)>", segment.text, re.DOTALL) == list(filter(None, lines))
    assert re.sub("[<>]", "", segment.text) == text


def test_sentences_are_translated_one_by_one() -> None:
    def split(line: str) -> list[str]:
        return [part + "." for part in line.split(".")[:-1]] if line.endswith(".") else [line]
    texts = ["a b.  c d.\n\ne f", "", "cut it.x y."]
    found = list(translate_segments(texts, lambda line: [one.strip() for one in split(line)], reversed_words))
    assert [one.text for one in found] == ["b. a  d. c\n\nf e", "", "it. cuty. x"]
    assert [one.warnings for one in found] == [(), (), ("cut",)]


def test_a_splitter_of_a_language() -> None:
    pytest.importorskip("sentencex", reason="the extra `split` is not installed")
    split = splitter("en")
    assert split("Dr. Smith has 3.5 apples. Has he?  Yes!") == ["Dr. Smith has 3.5 apples.", "Has he?", "Yes!"]
    assert split("no end") == ["no end"]
    for blank in ("\u00a0", "\u3000", "\x85"):  # on which the library would panic
        text = f"Take{blank}vitamin C{blank}.  Go{blank}on!{blank}Then{blank}{blank}rest."
        assert split(text) == [f"Take{blank}vitamin C{blank}.", f"Go{blank}on!", f"Then{blank}{blank}rest."]
        assert "".join(one.text for one in translate_segments([text], split, unchanged)) == text


PO = '''# A translator's comment
msgid ""
msgstr ""
"Language: xx\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: source.py:3
msgid "red otter"
msgstr ""

msgid "done"
msgstr "kept as it is"

msgctxt "menu"
msgid "open {name}\\n"
"close {lost}\\n"
msgstr ""

#, fuzzy
msgid "an old guess"
msgstr "wrong"

msgid "one moth"
msgid_plural "%d moths"
msgstr[0] ""
msgstr[1] ""

#~ msgid "obsolete"
#~ msgstr "gone"
'''


def catalogue(path: Path) -> tuple[list[str], bytes]:
    pytest.importorskip("polib")
    from pipeline.documents.po import Catalogue
    document = Catalogue(path)
    sources = document.sources()
    return sources, document.rendered(list(translate_segments(sources, whole_line, reversed_words)), lost_placeholders)


def test_a_catalogue_is_completed(tmp_path: Path) -> None:
    (tmp_path / "in.po").write_text(PO)
    sources, rendered = catalogue(tmp_path / "in.po")
    assert sources == ["red otter", "open {name}\nclose {lost}\n", "an old guess", "one moth", "%d moths"]
    (tmp_path / "out.po").write_bytes(rendered)
    assert list(read_catalogue(str(tmp_path / "out.po"))) == [
        ("red otter", "otter red"), ("done", "kept as it is"), ("an old guess", "guess old an"),
        ("one moth", "moth one"), ("%d moths", "moths %d")]
    text = rendered.decode()
    assert text.count("fuzzy") == 1 and text.index("#, fuzzy") < text.index('msgctxt "menu"')
    assert "#: source.py:3" in text and "# A translator's comment" in text and '#~ msgid "obsolete"' in text
    again, unchanged = catalogue(tmp_path / "out.po")
    assert again == ["open {name}\nclose {lost}\n"] and unchanged == rendered


@pytest.mark.parametrize(("declared", "expected"), [
    ("Content-Type: text/plain; charset=CHARSET", "Content-Type: text/plain; charset=UTF-8"),
    ("Content-Type: text/plain; charset=ISO-8859-1; format=flowed",
     "Content-Type: text/plain; charset=UTF-8; format=flowed"),
    ("Content-Type: text/plain; charset=Utf-8", "Content-Type: text/plain; charset=Utf-8"),
    ("Content-Type: text/html", "Content-Type: text/html; charset=UTF-8"),
    ("X-Of: a catalogue", "Content-Type: text/plain; charset=UTF-8\\n\"\n\"X-Of: a catalogue"),
    ("content-type: text/plain; charset=ascii", "content-type: text/plain; charset=UTF-8"),
])
def test_the_header_of_a_catalogue_names_its_charset(tmp_path: Path, declared: str, expected: str) -> None:
    text = f'#\nmsgid ""\nmsgstr ""\n"Language: xx\\n"\n"{declared}\\n"\n\nmsgid "red otter"\nmsgstr ""\n\n'
    (tmp_path / "in.po").write_text(text)
    _, rendered = catalogue(tmp_path / "in.po")
    assert rendered.decode() == text.replace(declared, expected).replace('msgstr ""\n\n', 'msgstr "otter red"\n\n')


def test_a_catalogue_without_a_header_gets_one(tmp_path: Path) -> None:
    (tmp_path / "in.po").write_text('msgid "red otter"\nmsgstr ""\n')
    _, rendered = catalogue(tmp_path / "in.po")
    assert rendered.startswith(b'#\nmsgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "red otter"')


def test_a_catalogue_in_a_named_pipe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is opened, which would wait for a writer."""
    monkeypatch.setattr("pipeline.documents.po.read_catalogue", None)
    os.mkfifo(tmp_path / "pipe.po")
    with pytest.raises(PipelineError, match=r"pipe\.po: is a named pipe, but a catalogue is read twice; write it to a"):
        catalogue(tmp_path / "pipe.po")


@pytest.mark.parametrize(("line", "escape"), [
    ('msgid "\\033[1mred"', r"\\0"), ('"\\\\ \\n\\a"', r"\\a"), ('#~ msgid "\\x41"', r"\\x"),
    ('#| msgid "\\x41"', r"\\x"),
    ('msgid "\\\\033 \\"a\\""', None), ('# "\\a"', None)])
def test_an_escape_that_would_be_lost_is_refused(tmp_path: Path, line: str, escape: str | None) -> None:
    """Also in a finished entry, which would otherwise be found no more."""
    lines = [line, 'msgstr "done"'] if line.startswith("msgid") else ['msgid "a"', 'msgstr "done"', line]
    (tmp_path / "in.po").write_text("".join(f"{one}\n" for one in lines))
    if escape is None:
        catalogue(tmp_path / "in.po")
        return
    with pytest.raises(PipelineError, match=rf"in\.po:\d: the escape {escape} would be lost; write the character"):
        catalogue(tmp_path / "in.po")


@pytest.mark.parametrize(("header", "expected"), [
    ('"Plural-Forms: nplurals=1; plural=0;\\n"\n', ["moths %d"]), ("", ["moth one", "moths %d"]),
    ('"Plural-Forms: nplurals=3; plural=0;\\n"\n', ["moth one", "moths %d", "moths %d"])])
def test_plural_forms(tmp_path: Path, header: str, expected: list[str]) -> None:
    """The only one is of any number, two are usual, and more are for a person to check."""
    empty = "".join(f'msgstr[{form}] ""\n' for form in range(len(expected)))
    (tmp_path / "in.po").write_text(PO.replace('"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n', header)
                                    .replace('msgstr[0] ""\nmsgstr[1] ""\n', empty))
    _, rendered = catalogue(tmp_path / "in.po")
    before, _, after = rendered.decode().partition("one moth")
    assert ("fuzzy" in before[-30:]) is (len(expected) > 2)
    assert "\n".join(f'msgstr[{form}] "{text}"' for form, text in enumerate(expected)) in after
    assert f"msgstr[{len(expected)}]" not in after


def test_of_one_form_the_singular_is_not_translated(tmp_path: Path) -> None:
    """What is lost in it therefore does not count."""
    (tmp_path / "in.po").write_text('msgid ""\nmsgstr "Plural-Forms: nplurals=1; plural=0;\\n"\n\n'
                                    'msgid "a {lost}"\nmsgid_plural "red otters"\nmsgstr[0] ""\n')
    sources, rendered = catalogue(tmp_path / "in.po")
    assert sources == ["red otters"] and 'msgstr[0] "otters red"' in rendered.decode() and b"fuzzy" not in rendered


def test_forms_that_a_person_has_finished_stay(tmp_path: Path) -> None:
    entry = 'msgid "one {lost}"\nmsgid_plural "red otters"\nmsgstr[0] "by hand"\nmsgstr[1] ""\n'
    (tmp_path / "in.po").write_text(entry)
    sources, rendered = catalogue(tmp_path / "in.po")
    assert sources == ["red otters"] and b"fuzzy" not in rendered
    assert 'msgstr[0] "by hand"\nmsgstr[1] "otters red"\n' in rendered.decode()
    (tmp_path / "in.po").write_text(f'#, fuzzy\n#| msgid "old"\n{entry}'.replace("one {lost}", "one"))
    sources, rendered = catalogue(tmp_path / "in.po")
    assert sources == ["one", "red otters"] and b"fuzzy" not in rendered and b"#|" not in rendered


@pytest.mark.parametrize(("declared", "forms", "expected"), [
    ("", ["", "by hand", "by hand"], ["otters red", "by hand", "by hand"]),  # more than are usual
    ("nplurals=3", ["by hand", "by hand"], ["by hand", "by hand", "otters red"])])  # polib takes it for finished
def test_an_entry_may_have_other_forms_than_its_header(tmp_path: Path, declared: str, forms: list[str],
                                                       expected: list[str]) -> None:
    head = f'msgid ""\nmsgstr "Plural-Forms: {declared}; plural=0;\\n"\n\n'
    (tmp_path / "in.po").write_text(head + 'msgid "red otters"\nmsgid_plural "red otters"\n' + "".join(
        f'msgstr[{form}] "{text}"\n' for form, text in enumerate(forms)))
    sources, rendered = catalogue(tmp_path / "in.po")
    assert sources == ["red otters"]
    assert "".join(f'msgstr[{form}] "{text}"\n' for form, text in enumerate(expected)) in rendered.decode()


TMX = '''<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US" datatype="plaintext"/><body>
<tu tuid="a"><note>kept</note>
<tuv xml:lang="en-US"><seg>red &amp; <ph x="1">&lt;b&gt;</ph>otter<ph x="2"/></seg></tuv></tu>
<tu tuid="b"><tuv xml:lang="en"><seg>done</seg></tuv><tuv xml:lang="xx-YY"><seg>kept</seg></tuv></tu>
<tu tuid="c"><tuv xml:lang="en"><seg>see {lost} and {1} <it pos="begin">x</it> now</seg></tuv></tu>
<tu tuid="d"><tuv xml:lang="fr"><seg>rien</seg></tuv></tu>
</body></tmx>
'''


def memory(path: Path) -> tuple[list[str], bytes]:
    pytest.importorskip("lxml")
    from pipeline.documents.tmx import Memory
    document = Memory(path, "en", "xx")
    sources = document.sources()
    return sources, document.rendered(list(translate_segments(sources, whole_line, reversed_words)), lost_placeholders)


def test_a_memory_is_completed(tmp_path: Path) -> None:
    (tmp_path / "in.tmx").write_text(TMX)
    sources, rendered = memory(tmp_path / "in.tmx")
    assert sources == ["red & {1}otter{2}", "see {lost} and {1} {2} now"]
    (tmp_path / "out.tmx").write_bytes(rendered)
    text = rendered.decode()
    assert '<seg><ph x="1">&lt;b&gt;</ph>otter<ph x="2"/> &amp; red</seg>' in text
    assert '<prop type="x-check">lost {lost}</prop><seg>now <it pos="begin">x</it> {1} and see</seg>' in text
    assert text.count("x-check") == 1 and "<note>kept</note>" in text and '<!DOCTYPE tmx SYSTEM "tmx14.dtd">' in text
    assert list(read_memory(str(tmp_path / "out.tmx"), "en", "xx")) == [
        ("red & otter", "otter & red"), ("done", "kept"), ("see {lost} and {1}  now", "now  {1} and see")]
    assert memory(tmp_path / "out.tmx") == ([], rendered)


@pytest.mark.parametrize(("translation", "notes"), [
    ("now {2} and {1}, see {lost}", []),
    ("now {1}, see {lost}", ["lost {2}"]),
    ("now {2} {1} {2} {2} {7}, see {lost}", ["added {2}", "added {7}"]),
    ("now {2} {3}", ["lost {1}", "lost {lost}", "added {3}"]),
])
def test_codes_lost_and_added_are_noted(tmp_path: Path, translation: str, notes: list[str]) -> None:
    """{2} stands for a code, {1} is a word of the source."""
    pytest.importorskip("lxml")
    from pipeline.documents.tmx import Memory
    (tmp_path / "in.tmx").write_text(TMX)
    document = Memory(tmp_path / "in.tmx", "en", "xx")
    first, second = document.sources()
    segments = [Segment(first, first, ()), Segment(second, translation, ())]
    rendered = document.rendered(segments, lost_placeholders).decode()
    assert re.findall('<prop type="x-check">(.*?)</prop>', rendered) == notes


def test_a_memory_opens_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden words")
    declared = f'<!DOCTYPE tmx [<!ENTITY other SYSTEM "{tmp_path / "secret"}">]>'
    (tmp_path / "in.tmx").write_text(TMX.replace('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', declared)
                                     .replace("<seg>see ", "<seg>see &other; "))
    with pytest.raises(PipelineError, match="entities of other files are not read"):
        memory(tmp_path / "in.tmx")


def test_a_translation_that_was_cut_is_marked(tmp_path: Path) -> None:
    (tmp_path / "in.po").write_text('msgid "cut it"\nmsgstr ""\n\nmsgid "go on"\nmsgstr ""\n')
    assert re.findall('(#, fuzzy\n)?msgid "(c.*|g.*)"', catalogue(tmp_path / "in.po")[1].decode()) == [
        ("#, fuzzy\n", "cut it"), ("", "go on")]
    (tmp_path / "in.tmx").write_text(TMX.replace("red &amp; ", "cut "))
    assert b'<prop type="x-check">cut</prop>' in memory(tmp_path / "in.tmx")[1]


def test_comments_and_instructions_are_no_codes(tmp_path: Path) -> None:
    (tmp_path / "in.tmx").write_text(TMX.replace("red &amp; ", "red <!-- a note -->&amp; <?hide it?>"))
    assert memory(tmp_path / "in.tmx")[0][0] == "red & {1}otter{2}"


@pytest.mark.parametrize("empty", ["<seg/>", "<seg></seg>", "<seg>\n </seg>"])
def test_an_empty_segment_is_filled_in_its_place(tmp_path: Path, empty: str) -> None:
    complete = TMX.replace("<seg>done</seg>", "<seg>done {lost}</seg>")
    (tmp_path / "complete.tmx").write_text(complete)
    (tmp_path / "in.tmx").write_text(complete.replace("<seg>kept</seg>", empty))
    sources, rendered = memory(tmp_path / "in.tmx")
    assert sources == ["red & {1}otter{2}", "done {lost}", "see {lost} and {1} {2} now"]
    filled = b'<prop type="x-check">lost {lost}</prop><seg>done</seg>'
    assert rendered == memory(tmp_path / "complete.tmx")[1].replace(b"<seg>kept</seg>", filled)


# By the command.

@pytest.fixture
def translate(workspace: Path, monkeypatch: pytest.MonkeyPatch,
              capsysbinary: pytest.CaptureFixture[bytes]) -> Translate:
    """A function from options to status, standard output and standard error."""
    def run(*options: str, text: bytes = b"") -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        model = () if "--model" in options else ("--family", "teacher")
        status = main(["translate", *model, "--device", "cpu", *options])
        printed = capsysbinary.readouterr()
        return status, printed.out, printed.err.decode()
    return run


def test_documents_by_their_names(translate: Translate, workspace: Path) -> None:
    pytest.importorskip("polib")
    pytest.importorskip("lxml")
    (workspace / "in.po").write_text(PO)
    (workspace / "in.tmx").write_text(TMX)
    status, _, error = translate("--input", "in.po", "--output", "out.po")
    assert status == 0 and "in.po: 'open {name}\\nclose {lost}\\n': lost" in error
    assert ("done", "kept as it is") in list(read_catalogue("out.po"))
    status, printed, error = translate("--input", "in.tmx", "--languages", "en", "de", "--decoder", "beam3")
    assert status == 0 and printed.count(b'<tuv xml:lang="de">') == 3 and b"x-check" in printed
    status, printed, _ = translate("--input", "in.tmx")
    assert status == 0 and printed.count(b'<tuv xml:lang="xx">') == 2


@pytest.mark.parametrize(("name", "text", "options", "message"), [
    ("in.po", PO, ("--prefix",), "--prefix: is for text line by line; leave it out with a .po file"),
    ("in.PO", PO, ("--nbest", "2"), "--nbest: is for text line by line; leave it out with a .po file"),
    ("in.tmx", TMX, ("--format", "json"), "--format json: is for text line by line; leave it out with a .tmx file"),
    ("in.tmx", "<tmx>", (), "in.tmx: not a readable translation memory"),
    ("in.tmx", TMX, ("--languages", "en", "EN"), "--languages: en is both source and target"),
    ("in.tmx", TMX, ("--languages", "en", ""), "--languages: '' is not a code such as"),
    ("in.po", 'msgid ""\nmsgstr "Plural-Forms: nplurals=0;\\n"\n', (), "in.po: its header has nplurals=0, but"),
    ("in.po", 'msgid ""\nmsgstr "Plural-Forms: nplurals=99;\\n"\n', (), "in.po: its header has nplurals=99, but"),
    ("in.po.gz", "", (), "in.po.gz: documents are read uncompressed"),
    ("in.tmx", TMX, ("--languages", "it", "de"), "in.tmx: has no unit in the language 'it'; its languages must"),
    ("in.po", 'msgid "a\n', (), "in.po:1: not a line of a gettext catalogue, or its string"),
    ("in.po", f'msgid ""\nmsgstr "X-{"9" * 5000}: a\\n"\n', (), "in.po: not a readable catalogue (Exceeds the limit"),
    ("in.txt", "a", ("--split", "--prefix"), "--prefix: is for text line by line; leave it out with --split")])
def test_what_a_document_cannot_have(translate: Translate, workspace: Path, monkeypatch: pytest.MonkeyPatch, name: str,
                                     text: str, options: tuple[str, ...], message: str) -> None:
    """In one line, before a model is loaded."""
    pytest.importorskip("polib")
    pytest.importorskip("lxml")
    monkeypatch.setattr("pipeline.commands.translate.open_model", None)
    (workspace / name).write_text(text)
    status, printed, error = translate("--input", name, *options)
    assert (status, printed) == (2, b"") and error.startswith(f"error: {message}") and error.count("\n") == 1


@pytest.mark.parametrize(("library", "options", "where"), [
    ("sentencex", ["--split"], "--split"), ("polib", ["--input", "one.po"], "one.po"),
    ("lxml", ["--input", "one.tmx"], "one.tmx")])
def test_a_missing_library_is_named(translate: Translate, workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                    library: str, options: list[str], where: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    (workspace / where).touch()
    status, _, error = translate(*options, text=b"One. Two.\n")
    assert status == 2 and error == f"error: {missing(library, where)}\n"


def test_split_lines_stay_lines(translate: Translate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.documents.segments.splitter", lambda language: lambda line: [
        part.strip() for part in line.replace(". ", ".\0").split("\0")])
    lines = ["The red otter. The pale moth.", "", "  The red snail"]
    status, printed, _ = translate("--split", text="\n".join(lines).encode())
    alone = translate(text=b"The red otter.\nThe pale moth.\nThe red snail\n")[1].decode().split("\n")
    assert status == 0 and printed.decode() == f"{alone[0]} {alone[1]}\n\n  {alone[2]}\n"


def test_progress_is_shown_where_it_is_asked_for(translate: Translate, workspace: Path) -> None:
    (workspace / "in.txt").write_text("The red otter\nThe pale moth\n")
    ordinary = translate("--input", "in.txt")
    assert "%" not in ordinary[2]
    status, printed, error = translate("--input", "in.txt", "--progress")
    assert (status, printed) == ordinary[:2] and "2/2" in error and "lines" in error
    (workspace / "in.txt.gz").write_bytes(gzip.compress((workspace / "in.txt").read_bytes()))
    status, printed, error = translate("--input", "in.txt.gz", "--split", "--progress")
    assert (status, printed) == ordinary[:2] and "2 lines" in error  # how many there will be is unknown


def test_many_lines_are_split_a_part_at_a_time() -> None:
    """However long the text is, only a part of it is in memory."""
    read = [0]

    def lines() -> Iterator[str]:
        for number in range(100):
            read[0] += 1
            yield f"one {number}" if number % 3 else ""

    for number, segment in enumerate(translate_segments(lines(), whole_line, reversed_words, at_once=8)):
        assert segment.text == (f"{number} one" if number % 3 else "") and read[0] <= number // 8 * 8 + 8
    assert read[0] == 100


def test_lines_are_split_by_the_rules_of_the_source(workspace: Path, folder: Path, translate: Translate,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    languages = list[str]()

    def splitter(language: str) -> Callable[[str], list[str]]:
        languages.append(language)
        return lambda line: [line]

    monkeypatch.setattr("pipeline.documents.segments.splitter", splitter)
    text = f"Da {{x}}\n{'otter ' * 10_000}\n".encode()
    for options in ((), ("--model", str(folder)), ("--languages", "en", "xx")):
        status, _, error = translate("--split", "--check-placeholders", *options, text=text)
        assert status == 0 and "line 1: lost {x}\n" in error and "line 2: source cut to " in error
    assert languages == ["en"] * 3


def test_a_model_folder_knows_its_languages(workspace: Path, folder: Path, translate: Translate) -> None:
    """For documents, and for the splitter."""
    pytest.importorskip("lxml")
    (workspace / "in.tmx").write_text(TMX)
    options = ("--input", "in.tmx", "--model", str(folder))
    assert translate(*options) == translate(*options, "--languages", "en", "xx")
    status, _, error = translate(*options[:2], "--model", "hf:nowhere")
    assert status == 2 and error.startswith("error: --languages: needed with --model hf:NAME")
