"""Findings that a decoder gives greedy search's output: counted on the whole test set, sentence by sentence."""

from collections.abc import Sequence

from pipeline.evaluation.claims.judgement import FALSE, TRUE, Judgement, missing
from pipeline.evaluation.rows import Row

_PROMISES = {23: ("iad",), 25: ("gad",), 30: ("pj", "pgj", "hgj")}
"""What the names of each finding's decoders begin with: `iad_whole` and `gad5` as well."""


def judge_exact(rows: Sequence[Row], sentences: int) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding: true where every text is greedy search's, or differs only by a
    certified tie of two equally probable tokens.

    A family whose verifier's greedy search was not evaluated has nothing to be compared with, and does not count.

    Args:
        rows: of all decoders.
        sentences: of the test set.
    """
    promising = [row for row in rows if row.identical_to_greedy is not None and row.ties is not None]
    return [(number, judgement) for number, beginnings in _PROMISES.items() for beginning in beginnings
            for judgement in [_judge(row, sentences) for row in promising if row.decoder.startswith(beginning)]
            or [missing(_claim(beginning), beginning)]]


def _claim(decoder: str) -> str:
    return f"{decoder} gives greedy search's text"


def _judge(row: Row, sentences: int) -> Judgement:
    assert row.identical_to_greedy is not None and row.ties is not None
    name = f"{row.family} {row.decoder}"
    other = round((1 - row.identical_to_greedy) * sentences)
    return Judgement(_claim(name), TRUE if other <= row.ties else FALSE,
                     f"{name}: {row.identical_to_greedy:.2%} of the sentences have the same text, {row.ties} differ by "
                     "a tie.",
                     {"identical": row.identical_to_greedy, "ties": row.ties})
