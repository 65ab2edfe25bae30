"""M2 files of grammatical error correction: tokenised sentences and the edits of their annotators (NUCLE, FCE, W&I, …).

A block is a line `S` with a sentence and, for each edit, a line

    A START END|||TYPE|||CORRECTION|||…|||…|||ANNOTATOR

and ends at a blank line. Of alternative corrections, separated by `||`, the first is taken. Edits of the types `noop`
(nothing to correct), `UNK` and `Um` (an error without a correction) change nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

from pipeline.checks import Checked, NotEmpty
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.lines import read_lines
from pipeline.sources.splits import Entry, Languages, Splits

_UNCHANGED = {"noop", "UNK", "Um"}
_Edits = list[tuple[int, int, str]]  # start, end, correction

Paths = Annotated[tuple[str, ...], NotEmpty()]


@dataclass(frozen=True)
class Settings(Checked):
    """The files of every split, plain or .gz, one after the other."""

    train: Paths
    validation: Paths
    test: Paths


def read(settings: Settings, languages: Languages) -> Splits:
    """Read the files lazily.

    In train, every annotator's correction of a sentence is a pair. In validation the first annotator's is the target;
    in test all are references, and the last one is repeated where a sentence has fewer than another.
    """
    references = max((len(corrections) for _, corrections in _sentences(settings.test)), default=1)
    return {"train": _pairs(settings.train),
            "validation": ((source, corrections[0]) for source, corrections in _sentences(settings.validation)),
            "test": ((source, *corrections, *corrections[-1:] * (references - len(corrections)))
                     for source, corrections in _sentences(settings.test))}


def inputs(settings: Settings) -> list[str]:
    """Return the files of all splits."""
    return [path for split in SPLITS for path in getattr(settings, split)]


def read_m2(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the sentences of a file, each with its corrections in the order of the annotators' numbers.

    A sentence that nobody has annotated is correct as it is.

    Raises:
        PipelineError: a line is of another form, or an edit is outside the sentence or overlaps another one.
    """
    source: list[str] | None = None
    annotators: dict[int, _Edits] = {}
    for number, line in enumerate(chain(read_lines(path), [""]), start=1):
        if not line.strip():
            if source is not None:
                yield " ".join(source), _corrections(source, annotators, f"{path}:{number - 1}")
            source, annotators = None, {}
        elif source is None and (line == "S" or line.startswith("S ")):
            source = line[1:].split()
        elif source is not None and line.startswith("A "):
            annotator, kind, edit = _read_edit(line, f"{path}:{number}")
            annotators.setdefault(annotator, [])
            if kind not in _UNCHANGED:
                annotators[annotator].append(edit)
        else:
            raise PipelineError(f"{path}:{number}: {line[:40]!r} is not a line of an M2 file; a block is a line that "
                                "begins with S, then lines that begin with A, then a blank line")


def _sentences(paths: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    for path in paths:
        yield from read_m2(Path(path))


def _pairs(paths: tuple[str, ...]) -> Iterator[Entry]:
    for source, corrections in _sentences(paths):
        for correction in corrections:
            yield source, correction


def _read_edit(line: str, where: str) -> tuple[int, str, tuple[int, int, str]]:
    """The annotator, the type and the edit of a line."""
    try:
        span, kind, correction, *_, annotator = line[2:].split("|||")
        start, end = map(int, span.split())
        correction = correction.split("||")[0]
        return int(annotator), kind, (start, end, "" if correction == "-NONE-" else correction)
    except ValueError:
        raise PipelineError(f"{where}: {line[:40]!r} is not an edit; write A START END|||TYPE|||CORRECTION|||REQUIRED"
                            "|||-NONE-|||ANNOTATOR") from None


def _corrections(source: list[str], annotators: dict[int, _Edits], where: str) -> list[str]:
    return [_correct(source, annotators[number], where) for number in sorted(annotators)] or [" ".join(source)]


def _correct(source: list[str], edits: _Edits, where: str) -> str:
    """The sentence after edits of one annotator; several insertions at one place stay in their order."""
    words, done = list[str](), 0
    for start, end, correction in sorted(edits, key=lambda edit: edit[:2]):
        if not done <= start <= end <= len(source):
            raise PipelineError(f"{where}: the edit {start} {end} of the sentence that ends here overlaps another one "
                                f"or is outside its {len(source)} tokens; correct the file")
        words += [*source[done:start], *correction.split()]
        done = end
    return " ".join([*words, *source[done:]])
