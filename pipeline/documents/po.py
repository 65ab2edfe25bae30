"""Gettext catalogues (.po) by polib: entries without a finished translation get one, the others stay as they are.

The first of several plural forms is translated from the singular and all others, or the only one, from the plural;
forms that a person has finished stay. An entry is marked fuzzy, for a person to read, if a placeholder was lost, the
translation was cut, or its language has more than two plural forms. The header declares UTF-8, in which the catalogue
is written.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.documents.segments import Segment
from pipeline.errors import PipelineError
from pipeline.extras import missing
from pipeline.lines import read_lines
from pipeline.sources.readers.po import read_catalogue

_CHARSET = re.compile(r"charset=(?!utf-8(?:[;\s]|\Z))[^;\s]*", re.IGNORECASE)
"""A charset that is not UTF-8, such as the CHARSET of a new template."""
_FORMS = re.compile(r"nplurals\s*=\s*(\d+)")
_LOST_ESCAPE = re.compile(r'(?:#[~|])?[^#"]*"(?:[^"\\]|\\[\\ntrvbf"])*(\\[^\\ntrvbf"])')
"""A line with an escape of gettext's that polib does not know, and of which it would double the backslash."""
_DIGITS = 4  # of a number that are read, so that no number is too long
_MOST_FORMS = 10  # Arabic has 6


class Catalogue:
    """A catalogue to be translated."""

    def __init__(self, path: Path) -> None:
        """Raises:
            PipelineError: polib is not installed, the file cannot be read twice, polib would change its finished
                entries, or its number of plural forms is none.
        """
        try:
            import polib
        except ImportError:
            raise missing("polib", str(path)) from None
        if path.is_fifo():
            raise PipelineError(f"{path}: is a named pipe, but a catalogue is read twice; write it to a file first")
        for _ in read_catalogue(str(path)):  # polib reads damaged catalogues without a word
            pass
        for number, line in enumerate(read_lines(path), start=1):
            if lost := _LOST_ESCAPE.match(line):
                raise PipelineError(f"{path}:{number}: the escape {lost[1]} would be lost; write the character itself")
        try:
            self._file: Any = polib.pofile(str(path), encoding="utf-8")
            self._file.metadata_as_entry()  # now rather than when it is written: it orders fields by their numbers
        except (OSError, ValueError) as error:
            raise PipelineError(f"{path}: not a readable catalogue ({' '.join(str(error).split())}); repair it "
                                "(msgfmt -c checks it)") from None
        forms = _FORMS.search(self._file.metadata.get("Plural-Forms", ""))
        self._forms = int(forms[1][:_DIGITS]) if forms else 2
        if not 0 < self._forms <= _MOST_FORMS:
            raise PipelineError(f"{path}: its header has nplurals={forms and forms[1][:_DIGITS]}, but languages have 1 "
                                f"to {_MOST_FORMS} plural forms; correct it")
        # An entry that lacks a form is finished for polib.
        self._entries = [entry for entry in self._file if not entry.obsolete and (
            not entry.translated() or (entry.msgid_plural and self._missing(entry)))]

    def sources(self) -> list[str]:
        """What is to be translated."""
        return [text for entry in self._entries for text in dict.fromkeys(self._missing(entry).values())]

    def _missing(self, entry: Any) -> dict[int, str]:
        """What each missing form of an entry is translated from; those of a fuzzy entry are all missing."""
        if not entry.msgid_plural:
            return {0: entry.msgid}
        finished = {} if entry.fuzzy else entry.msgstr_plural
        return {form: entry.msgid if form == 0 and self._forms > 1 else entry.msgid_plural
                for form in range(self._forms) if not finished.get(form)}

    def _forms_of(self, entry: Any) -> int:
        """The number of plural forms of an entry, which may have more than the header declares."""
        return max(self._forms, len(entry.msgstr_plural))

    def rendered(self, segments: list[Segment], lost: Callable[[str, str], list[str]]) -> bytes:
        """The catalogue with the translations of all sources.

        Args:
            segments: of `sources`.
            lost: the placeholders of a source that a translation lacks.
        """
        remaining = iter(segments)
        for entry in self._entries:
            missing = self._missing(entry)
            found = {text: next(remaining) for text in dict.fromkeys(missing.values())}
            if entry.msgid_plural:
                entry.msgstr_plural = {form: found[missing[form]].text if form in missing else entry.msgstr_plural[form]
                                       for form in range(self._forms_of(entry))}
            else:
                entry.msgstr = found[entry.msgid].text
            doubtful = (entry.msgid_plural and self._forms_of(entry) > 2) or any(
                one.warnings or lost(one.source, one.text) for one in found.values())
            if bool(doubtful) != entry.fuzzy:
                entry.fuzzy = bool(doubtful)
            if not doubtful:  # what a fuzzy entry was once the translation of
                entry.previous_msgctxt = entry.previous_msgid = entry.previous_msgid_plural = None
        self._declare_utf8()
        return f"{self._file}\n".encode()

    def _declare_utf8(self) -> None:
        """Name the charset in the header; without one, gettext takes the translations for ASCII."""
        header = self._file.metadata
        name = next((name for name in header if name.lower() == "content-type"), "Content-Type")
        declared = _CHARSET.sub("charset=UTF-8", header.get(name) or "text/plain")
        header[name] = declared if "charset=" in declared.lower() else f"{declared}; charset=UTF-8"
