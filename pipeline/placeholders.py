"""Placeholders in a sentence, which a program replaces by values."""

import re
from collections import Counter

_PLACEHOLDER = re.compile(r"\{[^{}\s]+\}|%\([^()\s]+\)[a-z]|%[sd]")


def lost_placeholders(source: str, translation: str) -> list[str]:
    """Placeholders such as {entity_name}, %(count)d or %s of the source that are missing in the translation.

    >>> lost_placeholders("Turn {name} on at {time}", "{name} einschalten")
    ['{time}']
    """
    wanted, found = Counter(_PLACEHOLDER.findall(source)), Counter(_PLACEHOLDER.findall(translation))
    return sorted((wanted - found).elements())
