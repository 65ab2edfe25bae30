"""Findings that a decoder gives greedy search's output: counted on the whole test set, sentence by sentence."""

from collections.abc import Sequence

from pipeline.evaluation.claims.judgement import FALSE, TRUE, Judgement, missing
from pipeline.evaluation.rows import Row

_PROMISES = {23: ("iad",), 25: ("gad",), 30: ("pj", "pgj3", "pgj5", "hgj3", "hgj5")}
"""The decoders of each finding."""


def judge_exact(rows: Sequence[Row]) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding: true where every text is greedy search's, or differs only by a
    certified tie of two equally probable tokens."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.decoder, []).append(row)
    return [(number, judgement) for number, decoders in _PROMISES.items() for decoder in decoders
            for judgement in list(map(_judge, found.get(decoder, ()))) or [missing(_claim(decoder), decoder)]]


def _claim(decoder: str) -> str:
    return f"{decoder} gives greedy search's text"


def _judge(row: Row) -> Judgement:
    name = f"{row.family} {row.decoder}"
    claim = _claim(name)
    if row.identical_to_greedy is None or row.ties is None:
        return missing(claim, name)
    # An evaluation refuses a text that differs without a certified tie (`evaluation.exactness`).
    holds = row.identical_to_greedy == 1 or row.ties > 0
    return Judgement(claim, TRUE if holds else FALSE,
                     f"{name}: {row.identical_to_greedy:.2%} of the sentences have the same text, {row.ties} differ by "
                     "a tie.",
                     {"identical": row.identical_to_greedy, "ties": row.ties})
