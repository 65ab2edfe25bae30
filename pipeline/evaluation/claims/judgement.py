"""Verdicts, and what they are made of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TRUE, FALSE, UNDECIDED = "true", "false", "undecided"
NOT_MEASURED, NOT_COMPARABLE = "not measured", "not comparable"
"""A run lacks what is compared; one of the systems that are compared has not learnt its task."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one part of a finding."""

    claim: str
    verdict: str
    why: str
    figures: Mapping[str, Any] = field(default_factory=dict)


def by_interval(low: float, high: float, threshold: float = 0.0) -> str:
    """True if a 95 % interval lies above a threshold, false if it lies below, else undecided.

    >>> by_interval(0.1, 0.4), by_interval(-0.4, -0.1), by_interval(-0.1, 0.2), by_interval(1.2, 1.8, 1.9)
    ('true', 'false', 'undecided', 'false')
    """
    return TRUE if low > threshold else FALSE if high < threshold else UNDECIDED


def by_two_intervals(larger: Sequence[float], smaller: Sequence[float]) -> str:
    """Whether one figure is larger than another, [figure, low, high] each: intervals that touch decide nothing.

    >>> by_two_intervals([1.8, 1.7, 1.9], [1.5, 1.4, 1.6]), by_two_intervals([1.5, 1.4, 1.7], [1.6, 1.5, 1.8])
    ('true', 'undecided')
    """
    return TRUE if larger[1] > smaller[2] else FALSE if larger[2] < smaller[1] else UNDECIDED


def all_of(verdicts: Sequence[str]) -> str:
    """The verdict on a finding of several parts: false if one is false, true if all are true.

    >>> all_of(["true", "false"]), all_of(["true", "true"]), all_of(["true", "not measured"]), all_of([])
    ('false', 'true', 'not measured', 'not measured')
    """
    found = Counter(verdicts)
    if found[FALSE]:
        return FALSE
    if found[TRUE] == len(verdicts) > 0:
        return TRUE
    return next((one for one in (NOT_MEASURED, NOT_COMPARABLE, UNDECIDED) if found[one]), NOT_MEASURED)


def missing(claim: str, *what: str) -> Judgement:
    """The judgement where a run lacks what is compared."""
    return Judgement(claim, NOT_MEASURED, f"Not measured: {', '.join(what)}.")


def in_words(figure: Sequence[float]) -> str:
    """[figure, low, high] for a reader."""
    return "{:.2f} (95 % interval {:.2f} to {:.2f})".format(*figure)


def rounded(figure: Sequence[float]) -> list[float]:
    """[figure, low, high] for a file."""
    return [round(value, 4) for value in figure]
