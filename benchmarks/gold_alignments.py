"""The Greek New Testament and an English translation of it, word-aligned by hand.

From the data files of the wheel `bible-alignments`: the SBL Greek New Testament (SBLGNT, CC-BY 4.0), the Berean
Standard Bible (BSB, public domain) and their alignment (SBLGNT-BSB-manual, CC-BY 4.0, Biblica). None of the wheel's
code is used.

What is read, because figures depend on it: the surface words in small letters; no English punctuation (the tokens
marked `exclude`); a verse is what the English file calls the `source_verse` of its words; a pair is a verse with words
on both sides, of which a Greek word is aligned. A group of m Greek and n English words is m x n links, all sure. Links
between two verses are left out, since no aligner that sees one verse at a time could find them.
"""

import csv
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.alignment_error_rate import Link
from pipeline.checksums import file_digest
from pipeline.errors import PipelineError
from pipeline.files import atomic_path
from pipeline.sources.wheel import download_wheel

PACKAGE, VERSION = "bible_alignments", "0.4.2"
SHA256 = "84f6b15e706657777824aac811567cb5cb2b38ad2b94497209f5f3c3f67b0984"
CACHE = Path("data/benchmarks")

GREEK = "data/sources/SBLGNT.tsv"
ENGLISH = "data/eng/targets/BSB/nt_BSB.tsv"
GROUPS = "data/eng/alignments/BSB/SBLGNT-BSB-manual.json"


class Gold(NamedTuple):
    """Verses with their links, in the order of the New Testament; N of them."""

    sources: list[list[str]]
    """(N,) Greek words of each verse."""
    targets: list[list[str]]
    """(N,) English words."""
    links: list[set[Link]]
    """(N,) sure links, positions from 0."""
    across: int
    """Links between two verses, left out."""


class _Place(NamedTuple):
    """Where a word stands."""

    verse: str
    position: int


def fetch_wheel(cache: Path = CACHE, digest: str = SHA256) -> Path:
    """Path of the wheel, downloaded once.

    Raises:
        PipelineError: no network, or a file of another hash.
    """
    kept = cache / f"{PACKAGE}-{VERSION}-py3-none-any.whl"
    if kept.exists() and file_digest(kept) == digest:
        return kept
    with tempfile.TemporaryDirectory() as folder:
        wheel = download_wheel(PACKAGE, VERSION, Path(folder))
        if (found := file_digest(wheel)) != digest:
            raise PipelineError(f"{wheel.name}: sha256 is {found} but {digest} is expected; the figures would not be "
                                "comparable, so get the published file")
        with atomic_path(kept) as aside:
            aside.write_bytes(wheel.read_bytes())
    return kept


def read_gold(wheel: Path) -> Gold:
    """Read the verses and their links.

    Raises:
        PipelineError: the wheel has no such files, or one of them is not what it should be.
    """
    sources, source_places = _read_words(wheel, GREEK)
    targets, target_places = _read_words(wheel, ENGLISH)
    links: dict[str, set[Link]] = {verse: set() for verse in sources}
    aligned: set[str] = set()
    across = 0
    for greek, english in _read_groups(wheel):
        aligned.update(place.verse for place in _find(greek, source_places, GREEK))
        for target in _find(english, target_places, ENGLISH):
            for source in _find(greek, source_places, GREEK):
                if source.verse == target.verse:
                    links[source.verse].add((source.position, target.position))
                else:
                    across += 1
    verses = sorted(aligned & sources.keys() & targets.keys())
    return Gold([sources[verse] for verse in verses], [targets[verse] for verse in verses],
                [links[verse] for verse in verses], across)


def _read_words(wheel: Path, member: str) -> tuple[dict[str, list[str]], dict[str, _Place | None]]:
    """Words of every verse, and the place of every word's id: none for what is excluded."""
    verses: dict[str, list[str]] = {}
    places: dict[str, _Place | None] = {}
    table = csv.DictReader(io.StringIO(_read(wheel, member)), delimiter="\t", quoting=csv.QUOTE_NONE)
    columns = {"id", "text"} if member == GREEK else {"id", "text", "source_verse", "exclude"}
    if missing := sorted(columns - set(table.fieldnames or ())):
        raise PipelineError(f"{wheel.name}: {member} has no column {', '.join(missing)}; get the published file")
    for row in table:
        name = row["id"]
        if row.get("exclude"):
            places[name] = None
            continue
        # A Greek id is a letter, eight digits for book, chapter and verse, and three for the word.
        verse = row["source_verse"] if "source_verse" in row else name[1:9]
        words = verses.setdefault(verse, [])
        places[name] = _Place(verse, len(words))
        words.append(row["text"].lower())
    return verses, places


def _read_groups(wheel: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Ids of the Greek and the English words of every group."""
    try:
        for record in json.loads(_read(wheel, GROUPS))["records"]:
            yield record["source"], record["target"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise PipelineError(f"{wheel.name}: {GROUPS} is not a list of groups ({error!r}); "
                            "get the published file") from None


def _find(names: list[str], places: dict[str, _Place | None], member: str) -> list[_Place]:
    try:
        found = [places[name] for name in names]
    except KeyError as error:
        raise PipelineError(f"{GROUPS} aligns the word {error}, which {member} does not have; "
                            "get the published file") from None
    return [place for place in found if place]


def _read(wheel: Path, member: str) -> str:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(member).decode("utf-8")
    except (KeyError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise PipelineError(f"{wheel.name}: {member} cannot be read ({error}); get the published file") from None
