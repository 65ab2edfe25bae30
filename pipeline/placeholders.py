"""Placeholders in a sentence, which a program replaces by values."""

import re
from collections import Counter

_PLACEHOLDER = re.compile(r"""
    \{[^{}\s]+\}
    | % (?: \d+\$ | \([^()\s]+\) )?          # position or name
        [#0+']*                              # flags; a blank is none here, as in "100% sure"
        (?: -? (?:[1-9]\d* | \*) )?          # width; a minus needs one, unlike that of "10%-off"
        (?: \. (?:\d* | \*) )?               # precision
        (?: hh? | ll? | [jztLq] )?           # length
        (?: [diouxXeEfFgGcsp] | (?<=\))[ar] )
    """, re.VERBOSE)


def lost_placeholders(source: str, translation: str) -> list[str]:
    """Placeholders such as {entity_name}, %(count)d or %1$s of the source that are missing in the translation.

    >>> lost_placeholders("Turn {name} on at {time}", "{name} einschalten")
    ['{time}']
    """
    return sorted((_placeholders(source) - _placeholders(translation)).elements())


def _placeholders(text: str) -> Counter[str]:
    return Counter(_PLACEHOLDER.findall(text.replace("%%", " ")))  # that is how printf writes a percent sign
