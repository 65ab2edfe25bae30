"""Compiled gettext catalogues (.mo), as `msgfmt` writes them: finished translations only, never fuzzy ones."""

import struct
from collections.abc import Iterator

from pipeline.sources.splits import Pair

_MAGIC = 0x950412DE
_SHARED = 16
"""How many times the size of the file its texts may be together, because entries may share a text."""


def read_compiled(content: bytes) -> Iterator[Pair]:
    """Yield (msgid, msgstr) of every entry; of plural entries as `readers.po` does.

    Raises:
        ValueError: this is no complete catalogue, its texts are not UTF-8, or they overlap without bounds.
    """
    try:
        magic, = struct.unpack_from("<I", content)
        form = "<" if magic == _MAGIC else ">"
        magic, _, count, originals, translations = struct.unpack_from(f"{form}5I", content)
        if magic != _MAGIC:
            raise ValueError("not a compiled gettext catalogue")
        size = 0
        for number in range(count):
            places = [struct.unpack_from(f"{form}2I", content, table + 8 * number)
                      for table in (originals, translations)]
            size += sum(length for length, _ in places)
            if size > _SHARED * len(content):
                raise ValueError("its entries overlap")
            original, translation = (_text(content, *place) for place in places)
            sources, forms = original.rpartition("\4")[2].split("\0"), translation.split("\0")  # \4 ends a context
            if sources[0] and all(forms):  # the header has no source
                yield sources[0], forms[0]
                if len(sources) > 1:
                    yield sources[1], forms[-1]
    except struct.error as error:
        raise ValueError(f"not a complete gettext catalogue: {error}") from None


def _text(content: bytes, length: int, start: int) -> str:
    if start + length > len(content):
        raise ValueError("the file ends within a text")
    return content[start:start + length].decode()
