"""Findings that a decoder gives greedy search's output: counted on the whole test set, sentence by sentence."""

from collections.abc import Sequence

from pipeline.evaluation.claims.judgement import FALSE, TRUE, Judgement, missing
from pipeline.evaluation.rows import Row

_PROMISES = {23: ("iad",), 25: ("gad",), 30: ("pj", "pgj3", "pgj5", "hgj3", "hgj5")}
"""The decoders of each finding."""


def judge_exact(rows: Sequence[Row]) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding: true where every text is greedy search's, or differs only by a
    certified tie of two equally probable tokens."""
    found = {row.decoder: row for row in rows}
    return [(number, _judge(decoder, found.get(decoder))) for number, decoders in _PROMISES.items()
            for decoder in decoders]


def _judge(decoder: str, row: Row | None) -> Judgement:
    claim = f"{decoder} gives greedy search's text"
    if row is None or row.identical_to_greedy is None or row.ties is None:
        return missing(claim, decoder)
    # An evaluation refuses a text that differs without a certified tie (`evaluation.exactness`).
    holds = row.identical_to_greedy == 1 or row.ties > 0
    return Judgement(claim, TRUE if holds else FALSE,
                     f"{row.family} {decoder}: {row.identical_to_greedy:.2%} of the test sentences have the same text, "
                     f"{row.ties} differ by a tie.",
                     {"identical": row.identical_to_greedy, "ties": row.ties})
