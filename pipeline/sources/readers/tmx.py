"""Translation memories (.tmx), streamed by lxml."""

from collections.abc import Iterator
from typing import Any

from pipeline.errors import PipelineError
from pipeline.extras import missing
from pipeline.sources.catalogues import CatalogueSettings, catalogue_inputs, split_catalogues
from pipeline.sources.splits import Languages, Pair, Splits

BY_LANGUAGE = True
Settings = CatalogueSettings
inputs = catalogue_inputs

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = {"bpt", "ept", "it", "ph", "ut"}  # inline elements that hold formatting codes, not words


def read(settings: Settings, languages: Languages) -> Splits:
    """Read the translation units of all memories, lazily."""
    return split_catalogues(settings, lambda path: read_memory(path, *languages))


def read_memory(path: str, source_language: str, target_language: str) -> Iterator[Pair]:
    """Yield the two segments of every unit that has both languages; `en` also matches `en-US` and `EN`.

    Entities that the file itself defines are replaced by their text.

    Raises:
        PipelineError: lxml is not installed, or the file is not well-formed XML, needs an entity that another file
            defines, or has entities that grow without bounds.
    """
    try:
        from lxml import etree
    except ImportError:
        raise missing("lxml", "corpus.source tmx") from None
    try:
        # An untrusted memory must not open other files or addresses.
        units = etree.iterparse(path, tag="tu", resolve_entities="internal", no_network=True, load_dtd=False)
        for _, unit in units:
            segments = segments_of(unit)
            source, target = (find_segment(segments, language) for language in (source_language, target_language))
            if source is not None and target is not None:
                yield _text(source), _text(target)
            unit.clear()
            while unit.getprevious() is not None:  # otherwise the root keeps every unit already read
                del unit.getparent()[0]
    except (etree.XMLSyntaxError, OSError) as error:
        raise PipelineError(f"{path}: not a readable translation memory ({error}); repair the XML (entities of other "
                            "files are not read)") from None


def segments_of(unit: Any) -> dict[str, Any]:
    """The segments of a translation unit by language, in lower case."""
    return {_language(variant): variant.find("seg") for variant in reversed(unit.findall("tuv"))}


def _language(variant: Any) -> str:
    return (variant.get(_LANGUAGE) or variant.get("lang") or "").lower()


def find_segment(segments: dict[str, Any], language: str) -> Any:
    """Return the segment of exactly this language, or else of the first of its regions; None: it has neither."""
    wanted = language.lower()
    regional = [code for code in sorted(segments) if code.startswith(wanted + "-")]
    return segments.get(wanted, segments[regional[0]] if regional else None)


def _text(element: Any) -> str:
    """Return the words of a segment without its formatting codes."""
    words = [element.text or ""]
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _CODES:
            words.append(_text(child))
        words.append(child.tail or "")
    return "".join(words)
