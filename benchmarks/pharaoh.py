"""Reads alignments that are text, of other aligners and of this one; `pipeline.alignment.pharaoh` writes them."""

import re
from array import array
from pathlib import Path

import numpy as np

from pipeline.alignment.links import Links
from pipeline.errors import PipelineError

_LINK = rb"\d{1,9}-\d{1,9}"
_LINE = re.compile(rb"\s*(?:" + _LINK + rb"(?:\s+|$))*")
_FARTHEST = 32_767
"""Largest position that is read: the grid of a longer sentence, surely a mistake, would not fit into memory."""


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
