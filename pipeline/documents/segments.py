"""Segments of any number of lines and sentences, translated sentence by sentence; white space between them stays."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from pipeline.chunks import chunks
from pipeline.extras import missing

if TYPE_CHECKING:
    from pipeline.translation import Translation

Split = Callable[[str], list[str]]
"""From a line without white space at its ends to its sentences, in order."""
Translate = Callable[[list[str]], Iterator["Translation"]]
"""From sentences to their translations."""
_AT_ONCE = 1024
"""Segments read ahead, so that sentences of similar length can share a batch."""
_PARTS = re.compile(r"((?<!\s)\s*\n\s*|\A\s+|(?<!\s)\s+\Z)")
"""White space around line ends, and at both ends. It begins after none: each run is looked at once, not from each of
its characters."""


@dataclass(frozen=True)
class Segment:
    """A translated segment."""

    source: str
    text: str
    warnings: tuple[str, ...]
    """Notes on its sentences."""


def whole_line(line: str) -> list[str]:
    """A `Split` that leaves lines as they are."""
    return [line]


def splitter(language: str) -> Split:
    """A `Split` into sentences by the rules of a language, such as `en`.

    Raises:
        PipelineError: sentencex is not installed.
    """
    try:
        import sentencex
    except ImportError:
        raise missing("sentencex", "--split") from None

    def split(line: str) -> list[str]:
        # White space of several bytes can make sentencex panic (1.0.32: "C\u00a0."), so it gets a space for each.
        parts = sentencex.segment(language, re.sub(r"\s", " ", line))
        ends = accumulate(map(len, parts), initial=0)
        return [sentence for begin, end in pairwise(ends) if (sentence := line[begin:end].strip())]

    return split


def translate_segments(segments: Iterable[str], split: Split, translate: Translate,
                       at_once: int = _AT_ONCE) -> Iterator[Segment]:
    """Translate segments, each of whose lines is split into sentences; of white space alone, nothing is translated.

    Args:
        segments: any number of them; only `at_once` are in memory.
        split: of a line into sentences.
        translate: of sentences.
        at_once: segments to read before the first of them is translated.
    """
    for chunk in chunks(segments, at_once):
        cut = [[_sentences(part, split) for part in _PARTS.split(segment)] for segment in chunk]
        found = translate([sentence for parts in cut for sentences, _ in parts for sentence in sentences])
        for segment, parts in zip(chunk, cut, strict=True):
            yield _joined(segment, parts, found)


def _joined(segment: str, parts: list[tuple[list[str], list[str]]], found: Iterator["Translation"]) -> Segment:
    """A segment with the next translations between its gaps; see `_sentences`."""
    texts, warnings = list[str](), list[str]()
    for sentences, gaps in parts:
        for _, gap in zip(sentences, gaps[:-1], strict=True):
            result = next(found)
            texts += [gap, result.hypotheses[0]]
            warnings += [result.warning] if result.warning else []
        texts.append(gaps[-1])
    return Segment(segment, "".join(texts), tuple(warnings))


def _sentences(part: str, split: Split) -> tuple[list[str], list[str]]:
    """The sentences of a line, and what is before each of them and after the last one."""
    if not part.strip():
        return [], [part]
    sentences, gaps, at = split(part), list[str](), 0
    for sentence in sentences:
        begin = part.index(sentence, at)
        gaps.append(part[at:begin])
        at = begin + len(sentence)
    return sentences, [*gaps, part[at:]]
