"""Alignments as text: one line per sentence pair, `source-target` positions from 0, separated by spaces."""

from itertools import pairwise
from pathlib import Path

import numpy as np

from pipeline.alignment.links import Links
from pipeline.files import atomic_path

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
