"""Alignments as text: one line per sentence pair, `source-target` positions from 0, separated by spaces."""

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.links import Links
from pipeline.errors import PipelineError
from pipeline.files import atomic_path
from pipeline.lines import read_lines

_LINK = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
_CHUNK = 4096  # pairs written at once


def read_heads(path: Path, bitext: Bitext, heads: NDArray[np.int32]) -> None:
    """Read another aligner's links into `heads`, shape (target words): source positions, or -1.

    Of several links of a target word the first source word's counts. The file may be compressed.

    Raises:
        PipelineError: the file cannot be read, is no Pharaoh format, or is of another corpus.
    """
    heads[:] = -1
    pairs = 0
    for pairs, line in enumerate(read_lines(path), 1):
        if pairs > bitext.pairs:
            continue
        start, end = bitext.target.offsets[pairs - 1:pairs + 1].tolist()
        words = int(bitext.source.offsets[pairs] - bitext.source.offsets[pairs - 1])
        for link in line.split():
            found = _LINK.fullmatch(link)
            if found is None:
                raise PipelineError(f"{path}:{pairs}: '{link}' is not a link; write SOURCE-TARGET, positions from 0")
            source, target = int(found[1]), int(found[2])
            if source >= words or target >= end - start:
                raise PipelineError(f"{path}:{pairs}: the link {link} is outside of a pair of {words} and "
                                    f"{end - start} pieces; align the pieces of this corpus (docs/scale.md)")
            if not 0 <= heads[start + target] <= source:
                heads[start + target] = source
    if pairs != bitext.pairs:
        raise PipelineError(f"{path}: {pairs} lines, but the corpus has {bitext.pairs} pairs; give one line per pair")


class _Names(dict[int, str]):
    """The text of a link by source << 32 | target, a cache: few links are distinct."""

    def __missing__(self, code: int) -> str:
        self[code] = name = f"{code >> 32}-{code & 0xFFFFFFFF}"
        return name


def write_pharaoh(path: Path, blocks: Iterable[Links]) -> int:
    """Write the links of consecutive pairs, in their order; a pair without links is an empty line.

    Returns:
        The number of links.

    Raises:
        PipelineError: the file cannot be written.
    """
    names, count = _Names(), 0
    with atomic_path(path) as aside, open(aside, "w", encoding="ascii", newline="\n") as file:
        for links in blocks:
            count += len(links.source)
            for first in range(0, links.pairs, _CHUNK):
                offsets = links.offsets[first:first + _CHUNK + 1].tolist()
                part = slice(offsets[0], offsets[-1])
                codes = links.source[part].astype(np.int64) << 32 | links.target[part]
                texts = [names[code] for code in codes.tolist()]
                starts = [offset - offsets[0] for offset in offsets]
                file.writelines(" ".join(texts[start:end]) + "\n" for start, end in pairwise(starts))
    return count
