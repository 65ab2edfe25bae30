"""Translation memories (.tmx) by lxml: every unit whose segment in the target language is missing or empty gets one.

Inline codes such as <ph> stand in the sentence as {1}, {2}, …, and are put back where the translation has these. A
segment that lost a code or a placeholder, has a mark too many, or was cut, gets a <prop type="x-check"> that names it.
"""

import copy
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.documents.segments import Segment
from pipeline.errors import PipelineError
from pipeline.extras import missing

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_CODE = re.compile("[A-Za-z0-9]+([-_][A-Za-z0-9]+)*")
_MARK = re.compile(r"(\{\d+\})")


class Memory:
    """A memory to be translated from one language into another."""

    def __init__(self, path: Path, source_language: str, target_language: str) -> None:
        """Raises:
            PipelineError: lxml is not installed; a language has no code, or both are one; or the file is not
                well-formed XML, needs an entity that another file defines, or has no unit in the source language.
        """
        try:
            from lxml import etree
        except ImportError:
            raise missing("lxml", str(path)) from None
        from pipeline.sources.readers.tmx import find_segment, segments_of

        for language in (source_language, target_language):
            if not _CODE.fullmatch(language):
                raise PipelineError(f"--languages: {language!r} is not a code such as en or de-AT")
        if source_language.lower() == target_language.lower():
            raise PipelineError(f"--languages: {source_language} is both source and target; a memory needs two")
        self._etree, self._language = etree, target_language
        try:
            # An untrusted memory must not open other files or addresses.
            parser = etree.XMLParser(resolve_entities="internal", no_network=True, load_dtd=False)
            self._tree: Any = etree.parse(str(path), parser)
        except (etree.XMLSyntaxError, OSError) as error:
            raise PipelineError(f"{path}: not a readable translation memory ({error}); repair the XML (entities of "
                                "other files are not read)") from None
        self._units, known = [], 0
        for unit in self._tree.iter("tu"):
            segments = segments_of(unit)
            source, target = (find_segment(segments, language) for language in (source_language, target_language))
            known += source is not None
            if source is not None and (target is None or _is_empty(target)):
                self._units.append((unit, target, *_marked(source)))
        if not known:
            raise PipelineError(f"{path}: has no unit in the language {source_language!r}; its languages must be those "
                                "of the model (--languages, corpus.source_language in params.yaml)")

    def sources(self) -> list[str]:
        """What is to be translated."""
        return [text for _, _, text, _ in self._units]

    def rendered(self, segments: list[Segment], lost: Callable[[str, str], list[str]]) -> bytes:
        """The memory with the translations of all sources; see `po.Catalogue.rendered`."""
        for (unit, target, text, codes), segment in zip(self._units, segments, strict=True):
            absent = [mark for mark in codes if mark not in segment.text]
            notes = [f"lost {mark}" for mark in dict.fromkeys([*absent, *lost(segment.source, segment.text)])]
            notes += [f"added {mark}" for mark in Counter(_MARK.findall(segment.text)) - Counter(_MARK.findall(text))]
            if target is None:
                variant = self._etree.SubElement(unit, "tuv", {_LANGUAGE: self._language})
                variant.tail = "\n"
                target = self._etree.SubElement(variant, "seg")
            for note in [*notes, *segment.warnings]:
                prop = self._etree.Element("prop", {"type": "x-check"})
                prop.text = note
                target.addprevious(prop)
            _fill(target, segment.text, codes)
        found: bytes = self._etree.tostring(self._tree, xml_declaration=True, encoding="UTF-8")
        return found


def _is_empty(segment: Any) -> bool:
    """Whether a segment has neither text nor elements."""
    text = "".join([segment.text or "", *(child.tail or "" for child in segment)])
    return not any(map(_is_element, segment)) and not text.strip()


def _is_element(child: Any) -> bool:
    """Whether a child of a segment is neither a comment nor a processing instruction."""
    return isinstance(child.tag, str)


def _marked(segment: Any) -> tuple[str, dict[str, Any]]:
    """The text of a segment, in which a mark stands for each of its elements, and the elements by mark."""
    taken = set(_MARK.findall("".join(segment.itertext())))
    text, codes, number = segment.text or "", dict[str, Any](), 0
    for child in segment:
        if not _is_element(child):
            text += child.tail or ""
            continue
        number += 1
        while f"{{{number}}}" in taken:
            number += 1
        mark = f"{{{number}}}"
        codes[mark] = child
        text += mark + (child.tail or "")
    return text, codes


def _fill(segment: Any, text: str, codes: dict[str, Any]) -> None:
    """Write a text into an empty segment, the first time with the element that each mark stands for."""
    segment.text = ""
    remaining, last = dict(codes), None
    for part in _MARK.split(text):
        if part in remaining:
            last = copy.deepcopy(remaining.pop(part))
            last.tail = ""
            segment.append(last)
        elif last is None:
            segment.text += part
        else:
            last.tail += part
