"""Alignments as text: one line per sentence pair, `source-target` positions from 0, separated by spaces."""

import re
from array import array
from itertools import pairwise
from pathlib import Path

import numpy as np

from pipeline.alignment.links import Links
from pipeline.errors import PipelineError
from pipeline.files import atomic_path

_LINK = rb"\d{1,9}-\d{1,9}"
_LINE = re.compile(rb"\s*(?:" + _LINK + rb"(?:\s+|$))*")
_FARTHEST = 32_767
"""Largest position that is read: the grid of a longer sentence, surely a mistake, would not fit into memory."""
_CHUNK = 4096  # pairs written at once


class _Names(dict[int, str]):
    """The text of a link by source << 32 | target, a cache: few links are distinct."""

    def __missing__(self, code: int) -> str:
        self[code] = name = f"{code >> 32}-{code & 0xFFFFFFFF}"
        return name


def write_pharaoh(path: Path, links: Links) -> None:
    """Write links, in their order; a pair without links is an empty line.

    Raises:
        PipelineError: the file cannot be written.
    """
    names = _Names()
    with atomic_path(path) as aside, open(aside, "w", encoding="ascii", newline="\n") as file:
        for first in range(0, links.pairs, _CHUNK):
            offsets = links.offsets[first:first + _CHUNK + 1].tolist()
            part = slice(offsets[0], offsets[-1])
            codes = links.source[part].astype(np.int64) << 32 | links.target[part]
            texts = [names[code] for code in codes.tolist()]
            starts = [offset - offsets[0] for offset in offsets]
            file.writelines(" ".join(texts[start:end]) + "\n" for start, end in pairwise(starts))


def read_pharaoh(path: Path) -> Links:
    """Read links, in their order.

    Raises:
        PipelineError: the file cannot be read, or a line holds something else than links.
    """
    offsets, source, target = array("q", [0]), array("i"), array("i")
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not _LINE.fullmatch(line):
                    raise PipelineError(f"{path}: line {number}: {_first_bad(line)} is not a link; write "
                                        "SOURCE-TARGET, positions from 0")
                positions = [int(digits) for digits in line.replace(b"-", b" ").split()]
                if positions and max(positions) > _FARTHEST:
                    raise PipelineError(f"{path}: line {number}: position {max(positions)} is beyond {_FARTHEST}; "
                                        "split the sentence")
                source.extend(positions[::2])
                target.extend(positions[1::2])
                offsets.append(len(source))
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}") from None
    return Links(np.frombuffer(offsets, np.int64), np.frombuffer(source, np.int32), np.frombuffer(target, np.int32))


def _first_bad(line: bytes) -> str:
    bad = next(item for item in line.split() if not re.fullmatch(_LINK, item))
    return repr(bad.decode(errors="replace"))
