"""Gettext catalogues (.po).

An entry is `msgctxt` (optional), `msgid`, and `msgstr`, or `msgid_plural` and `msgstr[0]`, `msgstr[1]`, … Each keyword
has one or more strings, one per line, which are concatenated. Of the comments only flags (`#,`) and obsolete entries
(`#~`) are read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.lines import read_lines
from pipeline.sources.catalogues import CatalogueSettings, catalogue_inputs, split_catalogues
from pipeline.sources.splits import Languages, Pair, Splits

Settings = CatalogueSettings
inputs = catalogue_inputs

_LINE = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)?\s*"((?:[^"\\]|\\.)*)"')
_FOLLOWS = {"msgctxt": ("",), "msgid": ("", "msgctxt"), "msgid_plural": ("msgid",), "msgstr": ("msgid",),
            "msgstr[": ("msgid_plural", "msgstr[")}
"""The keywords that may precede each keyword in its entry; empty: it may be the first."""
_ESCAPE = re.compile(r'\\([\\ntrvbf"])')
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "b": "\b", "f": "\f"}


def read(settings: Settings, languages: Languages) -> Splits:
    """Read the finished translations of all catalogues, lazily."""
    return split_catalogues(settings, read_catalogue)


def read_monolingual(settings: Settings, languages: Languages) -> Iterator[str]:
    """Yield the texts of train that are not translated, or only fuzzily."""
    for source, _ in split_catalogues(settings, _read_untranslated)["train"]:
        yield source


def _read_untranslated(path: str) -> Iterator[Pair]:
    for entry in _entries(read_lines(Path(path)), path):
        if not entry.pairs():
            yield from ((text, "") for keyword, text in entry.texts.items() if keyword in ("msgid", "msgid_plural"))


def read_catalogue(path: str) -> Iterator[Pair]:
    """Yield (msgid, msgstr) of every entry that is translated and neither fuzzy nor obsolete.

    In plural entries the singular is paired with the first form and the plural with the last.

    Raises:
        PipelineError: the file cannot be read, is not UTF-8, or is no complete catalogue.
    """
    return read_entries(read_lines(Path(path)), path)


def read_entries(lines: Iterable[str], name: str) -> Iterator[Pair]:
    """Yield what `read_catalogue` does, from the lines of a catalogue; errors begin with its name."""
    for entry in _entries(lines, name):
        yield from entry.pairs()


@dataclass
class _Entry:
    """The part of an entry that has been read."""

    texts: dict[str, str] = field(default_factory=dict)
    """By keyword, in the order of the file."""
    fuzzy: bool = False

    @property
    def last(self) -> str:
        """The keyword that was read last, without its number; empty at the beginning."""
        return next(reversed(self.texts), "").rstrip("0123456789]")

    @property
    def complete(self) -> bool:
        """Whether its translation has begun."""
        return self.last.startswith("msgstr")

    def add(self, keyword: str | None, text: str) -> None:
        """Add one line; without a keyword it continues the last one.

        Raises:
            ValueError: the line is not allowed here.
        """
        if keyword is None:
            if not self.texts:
                raise ValueError("a string without a keyword")
            self.texts[next(reversed(self.texts))] += text
            return
        if self.last not in _FOLLOWS[keyword.rstrip("0123456789]")]:
            raise ValueError(f"{keyword} after {next(reversed(self.texts), 'the end of an entry')}")
        due = f"msgstr[{sum(form.startswith('msgstr[') for form in self.texts)}]"
        if keyword.startswith("msgstr[") and keyword != due:
            raise ValueError(f"{keyword} where {due} is expected")
        self.texts[keyword] = text

    def pairs(self) -> list[Pair]:
        """Return the pairs of a complete entry; the header, which has an empty msgid, has none."""
        source, plural = self.texts["msgid"], self.texts.get("msgid_plural")
        forms = [text for keyword, text in self.texts.items() if keyword.startswith("msgstr")]
        if self.fuzzy or not source or not all(forms):
            return []
        return [(source, forms[0])] if plural is None else [(source, forms[0]), (plural, forms[-1])]


def _entries(lines: Iterable[str], path: str) -> Iterator[_Entry]:
    entry, number = _Entry(), 0
    for number, line in enumerate(map(str.strip, lines), start=1):
        if entry.complete and line and not line.startswith(('"', "msgstr")):
            yield entry
            entry = _Entry()
        if line.startswith("#~"):
            entry.fuzzy = False  # the flags before it were those of an obsolete entry
        elif line.startswith("#,"):
            entry.fuzzy |= "fuzzy" in (flag.strip() for flag in line[2:].split(","))
        elif line and not line.startswith("#"):
            try:
                entry.add(*_parse(line))
            except ValueError as error:
                raise PipelineError(f"{path}:{number}: {error}; repair the catalogue (msgfmt -c checks it)") from None
    if entry.complete:
        yield entry
    elif entry.texts:
        raise PipelineError(f"{path}:{number}: the file ends before the translation of its last entry; fetch it again, "
                            "or repair it (msgfmt -c checks it)")


def _parse(line: str) -> tuple[str | None, str]:
    """Return the keyword of a line, if it has one, and its string."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError("not a line of a gettext catalogue, or its string is not closed")
    return found[1], _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), found[2])
