"""Verdicts, and what they are made of."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

TRUE, FALSE, UNDECIDED = "true", "false", "undecided"
NOT_MEASURED, NOT_COMPARABLE = "not measured", "not comparable"
"""A run lacks what is compared; one of the systems that are compared has not learnt its task."""
NOT_LEARNT = "Less than half of the baseline's BLEU, so its task is not learnt"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one part of a finding."""

    claim: str
    verdict: str
    why: str
    figures: Mapping[str, Any] = field(default_factory=dict)


RELAXED_DRAFTS = (("drafter_1", "gad5"), ("drafter", "gad"))
"""Families and the decoders whose relaxed variants, ++_quality and ++_speed, are judged; the fairest first: with drafts
of five tokens, or with those that are fastest. Either way both variants draft as many, as in the paper."""
FEWEST = 8
"""Sentences or batches whose bootstrap can decide something: intervals of fewer are too narrow."""


def by_interval(low: float, high: float, threshold: float = 0.0) -> str:
    """True if a 95 % interval lies above a threshold, false if it lies below, else undecided.

    >>> by_interval(0.1, 0.4), by_interval(-0.4, -0.1), by_interval(-0.1, 0.2), by_interval(1.2, 1.8, 1.9)
    ('true', 'false', 'undecided', 'false')
    """
    return TRUE if low > threshold else FALSE if high < threshold else UNDECIDED


def compared(claim: str, estimate: Sequence[float], units: int, why: str, figures: Mapping[str, Any],
             threshold: float = 0.0, *, below: bool = False, of: str = "sentences") -> Judgement:
    """The judgement on a claim that a figure lies above a threshold, or below it.

    Args:
        claim: in words.
        estimate: the figure and its interval, see `Estimate`.
        units: how many it was computed from.
        why: the sentence that ends with it.
        figures: what else a reader of the file may want to know.
        threshold: which it lies above if the claim is true.
        below: whether it lies below the threshold if the claim is true.
        of: what the units are.
    """
    value, low, high = estimate
    verdict = by_interval(-high, -low, -threshold) if below else by_interval(low, high, threshold)
    verdict = verdict if units >= FEWEST else UNDECIDED
    figures = {**figures, "estimate": rounded(estimate)}
    if units < FEWEST:
        why = f"{why} Too few {of}, {units}, for a verdict."
    elif verdict == UNDECIDED:
        figures[f"{of}_to_decide"] = sentences_to_decide(value - threshold, low, high, units)
    return Judgement(claim, verdict, why, figures)


def sentences_to_decide(margin: float, low: float, high: float, sentences: int) -> int | None:
    """Sentences, or rounds, that would make an interval around a margin as narrow as the margin; None for none.

    >>> sentences_to_decide(0.5, -0.5, 1.5, 1000)
    4000
    """
    return round(sentences * ((high - low) / 2 / margin) ** 2) if margin else None


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


def of_equal_budgets(known: Collection[str], side: str, *names: str) -> Sequence[str]:
    """Families whose names end in one side of the data, which have equal budgets (Mask-Predict a larger one), or the
    run's ordinary ones.

    Args:
        known: names of which all must be, or the ordinary ones are meant.
        side: "raw" or "distilled".
        names: of ordinary families, each perhaps with its decoder.

    >>> of_equal_budgets({"ar_raw beam4", "nat"}, "raw", "ar beam4"), of_equal_budgets({"ar_raw"}, "raw", "ar", "nat")
    (['ar_raw beam4'], ('ar', 'nat'))
    """
    ending = [" ".join((f"{family}_{side}", *decoder)) for family, *decoder in map(str.split, names)]
    return ending if {*ending} <= {*known} else names


def with_learnt(judgement: Judgement, families: Collection[str], unlearnt: Collection[str]) -> Judgement:
    """A judgement on some families, or that it is not comparable, if one of them is among those that learnt nothing."""
    if judgement.verdict == NOT_MEASURED or not (names := sorted({*families} & {*unlearnt})):
        return judgement
    return replace(judgement, verdict=NOT_COMPARABLE, why=f"{judgement.why} {NOT_LEARNT}: {', '.join(names)}.")


def missing(claim: str, *what: str) -> Judgement:
    """The judgement where a run lacks what is compared."""
    return Judgement(claim, NOT_MEASURED, f"Not measured: {', '.join(what)}.")


def in_words(figure: Sequence[float]) -> str:
    """An estimate for a reader."""
    return "{:.2f} (95 % interval {:.2f} to {:.2f})".format(*figure)


def rounded(figure: Sequence[float]) -> list[float]:
    """An estimate for a file."""
    return [round(value, 4) for value in figure]
