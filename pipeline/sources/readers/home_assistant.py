"""Interface strings of the `homeassistant` wheel: real, licensed (Apache-2.0), small and installable.

Each integration keeps its strings in `translations/<language>.json`, nested dictionaries with the same keys
in every language. Splits are made by integration, so that test strings come from software that training never sees.
"""

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.splits import Languages, Pair, ShareSettings, assign_groups
from pipeline.sources.wheel import WheelSettings, fetch_wheel, open_wheel, read_member, unusable

BY_LANGUAGE = True
LICENCE = "apache-2.0"

_MEMBER = re.compile(r"homeassistant/components/([^/]+)/translations/([^/.]+)\.json")


@dataclass(frozen=True)
class Settings(WheelSettings, ShareSettings):
    """Which release, and the shares of its integrations whose strings become the validation and the test split."""


def read(settings: Settings, languages: Languages) -> dict[str, list[Pair]]:
    """Download the wheel, check its hash and read the pairs of every split.

    Raises:
        PipelineError: no network, another hash, or a wheel that cannot be read or lacks a language.
    """
    with fetch_wheel("homeassistant", settings, "corpus.home_assistant.sha256") as wheel:
        by_integration = read_wheel(wheel, *languages)
    split_of = assign_groups(by_integration, settings.validation_share, settings.test_share)
    splits: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    for integration in sorted(by_integration):
        splits[split_of[integration]] += by_integration[integration]
    return splits


def read_monolingual(settings: Settings, languages: Languages) -> Iterator[str]:
    """Download the wheel and yield the source strings that have no translation.

    Those of the validation and the test integrations are left out.

    Raises:
        PipelineError: see `read`.
    """
    with fetch_wheel("homeassistant", settings, "corpus.home_assistant.sha256") as wheel, open_wheel(wheel) as archive:
        members = _members(archive, *languages)
        both = [integration for integration, found in members.items() if languages[1] in found]
        split_of = assign_groups(both, settings.validation_share, settings.test_share)
        for integration in sorted(members):
            if split_of.get(integration, "train") == "train":
                source, target = (_strings(archive, members[integration].get(language)) for language in languages)
                yield from (text for key, text in source.items() if key not in target)


def read_wheel(wheel: Path, source_language: str, target_language: str) -> dict[str, list[Pair]]:
    """Return the aligned strings of each integration that has both languages.

    Raises:
        PipelineError: the wheel cannot be read, or lacks a language.
    """
    with open_wheel(wheel) as archive:
        return {integration: _align(*(_strings(archive, found[language])
                                      for language in (source_language, target_language)))
                for integration, found in _members(archive, source_language, target_language).items()
                if target_language in found}


def _members(archive: zipfile.ZipFile, source_language: str, target_language: str) -> dict[str, dict[str, str]]:
    """Return the members of each integration that has the source language, by language."""
    members: dict[str, dict[str, str]] = {}
    for name in archive.namelist():
        if match := _MEMBER.fullmatch(name):
            members.setdefault(match[1], {})[match[2]] = name
    present = sorted({language for languages in members.values() for language in languages})
    for language in (source_language, target_language):
        if language not in present:
            raise PipelineError(f"{Path(archive.filename or '').name}: no language '{language}'; choose one of "
                                f"{', '.join(present)}")
    return {integration: found for integration, found in members.items() if source_language in found}


def _strings(archive: zipfile.ZipFile, name: str | None) -> dict[str, str]:
    """Return the strings of a member by their paths; none if there is no member."""
    if name is None:
        return {}
    try:
        return dict(_flatten(json.loads(read_member(archive, name))))
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise unusable(archive, name, error) from None


def _align(source: dict[str, str], target: dict[str, str]) -> list[Pair]:
    return [(text, target[key]) for key, text in source.items() if key in target]


def _flatten(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, string) for every string of nested dictionaries."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _flatten(child, f"{key}\0{name}")
    elif isinstance(value, str):
        yield key, value
