"""Findings about speed: ratios of times on one clock, whose 95 % intervals decide.

All decoders of a run are searched by one engine on one device. The ratios are over long sentences, one at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.evaluation.claims.judgement import (
    FALSE,
    TRUE,
    UNDECIDED,
    Judgement,
    by_interval,
    by_two_intervals,
    in_words,
    missing,
    rounded,
)
from pipeline.evaluation.rows import Name

Ratio = Sequence[float]
"""[ratio, low, high]."""

_AT_LEAST = 1.9
_ALIKE = 0.1
"""By which share of its speed a decoder may differ from another one that is "as fast"."""


def judge_speed(speed: Mapping[str, Any]) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding, from a report of `speed.speed_report`."""
    entries = {(one["family"], one["decoder"]): one for one in speed["contestants"]}
    alike = {name: one.get("ratio_vs_ar_same_decoder") for name, one in entries.items()}
    greedy = {name: one.get("speedup_vs_greedy") for name, one in entries.items()}
    beam = {name: one.get("speedup_vs_beam5") for name, one in entries.items()}
    double, drafter, baseline = ("double_token", "greedy"), "drafter", speed["baseline"]

    def side(of: str, *families: str) -> tuple[str, ...]:
        """Families of equal budgets on one side of the data, or the run's ordinary ones."""
        named = tuple(f"{family}_{of}" for family in families)
        return named if {family for family, _ in entries} >= {*named} else families

    both, l2r, r2l = side("raw", "double_token", "double_token_l2r", "double_token_r2l")
    masked, = side("distilled", "mask_predict")
    return [
        (3, _above("double_token is faster than single-token decoding with as many beams", alike,
                   ("double_token", "pair_beam10"), 1.0)),
        (5, _larger("A smaller beam raises the ratio", alike, double, ("double_token", "pair_beam10"))),
        *((6, _as_fast(f"{one} is as fast as {both}", alike, (one, "greedy"), (both, "greedy"))) for one in (l2r, r2l)),
        (8, _above("mask_predict10 is slower than beam search", beam, (masked, "mask_predict10"), 1.0, -1)),
        (8, _above("mask_predict4 is faster than beam search", beam, (masked, "mask_predict4"), 1.0)),
        (9, _above(f"interleaved is at least {_AT_LEAST} times as fast", alike, ("interleaved", "beam4"), _AT_LEAST)),
        (18, _larger("A shallow interleaved decoder is faster than a deep one", beam, ("interleaved", "beam4"),
                     ("interleaved_deep", "beam4"))),
        (18, _above("A shallow interleaved decoder is faster than a shallow ar", alike, ("interleaved", "beam4"), 1.0)),
        (27, _larger("gad++_speed is faster than gad", greedy, (drafter, "gad++_speed"), (drafter, "gad"))),
        *((31, _larger(f"{block} is faster than {other}", greedy, (baseline, block), (baseline, other)))
          for block, other in (("pgj3", "pgj5"), ("hgj3", "hgj5"), ("pgj3", "pj"))),
    ]


def _above(claim: str, ratios: Mapping[Name, Ratio | None], name: Name, threshold: float, sign: int = 1) -> Judgement:
    """Whether a ratio lies above a threshold (sign 1), or below it (-1)."""
    ratio = ratios.get(name)
    if ratio is None:
        return missing(claim, " under ".join(name))
    low, high = sorted(sign * bound for bound in ratio[1:])
    return Judgement(claim, by_interval(low, high, sign * threshold), f"{' '.join(name)}: {in_words(ratio)}.",
                     {"ratios": {" ".join(name): rounded(ratio)}})


def _larger(claim: str, ratios: Mapping[Name, Ratio | None], larger: Name, smaller: Name) -> Judgement:
    mine, theirs = ratios.get(larger), ratios.get(smaller)
    if mine is None or theirs is None:
        return missing(claim, *(" under ".join(name) for name in (larger, smaller) if ratios.get(name) is None))
    return Judgement(claim, by_two_intervals(mine, theirs), _both(larger, mine, smaller, theirs),
                     {"ratios": {" ".join(larger): rounded(mine), " ".join(smaller): rounded(theirs)}})


def _as_fast(claim: str, ratios: Mapping[Name, Ratio | None], one: Name, other: Name) -> Judgement:
    """Whether the quotient of two ratios is near 1 wherever in their intervals these lie; false if it is so nowhere."""
    found = _larger(claim, ratios, one, other)
    mine, theirs = ratios.get(one), ratios.get(other)
    if mine is None or theirs is None:
        return found
    low, high = mine[1] / theirs[2], mine[2] / theirs[1]
    near, far = low >= 1 - _ALIKE and high <= 1 + _ALIKE, high < 1 - _ALIKE or low > 1 + _ALIKE
    return Judgement(claim, TRUE if near else FALSE if far else UNDECIDED, found.why, found.figures)


def _both(one: Name, mine: Ratio, other: Name, theirs: Ratio) -> str:
    return f"{' '.join(one)}: {in_words(mine)}; {' '.join(other)}: {in_words(theirs)}."
