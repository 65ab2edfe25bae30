"""Findings about speed: ratios of times on one clock, sentence by sentence, whose 95 % intervals decide.

All decoders of a run are searched by one engine on one device. The ratios are over long sentences, one at a time, and
paired: noise and sentences that two decoders share do not widen the interval of their comparison.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeline.evaluation.bootstrap import Estimate, Floats, quotient, speed_ratio
from pipeline.evaluation.claims.judgement import (
    FALSE,
    FEWEST,
    RELAXED_DRAFTS,
    TRUE,
    UNDECIDED,
    Judgement,
    compared,
    in_words,
    missing,
    of_equal_budgets,
    rounded,
    sentences_to_decide,
)
from pipeline.evaluation.rows import Name

_AT_LEAST = 1.9
_LITTLE = 1.25
"""How many times as long is a little longer; in the paper's Tables 4 to 9 it is 1.06 to 1.21 times."""
_ALIKE = 0.1
"""By which share of its speed a decoder may differ from another one that is "as fast"."""


class Gain(NamedTuple):
    """How many times as fast a decoder is as a reference."""

    decoder: Name
    reference: Name | None
    """None where the baseline has no decoder with as many beams."""


def judge_speed(speed: Mapping[str, Any]) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding, from a report of `speed.speed_report`."""
    entries = {(one["family"], one["decoder"]): one for one in speed["contestants"]}
    seconds = {name: np.array(one["seconds_long"]) for name, one in entries.items() if one["seconds_long"]}
    families, baseline = {family for family, _ in entries}, speed["baseline"]

    def alike(family: str, decoder: str) -> Gain:
        """Over the baseline with as many beams."""
        counterpart = entries.get((family, decoder), {}).get("counterpart")
        return Gain((family, decoder), None if counterpart is None else (baseline, counterpart))

    def over(reference: str, family: str, decoder: str) -> Gain:
        return Gain((family, decoder), (baseline, reference))

    both, l2r, r2l = of_equal_budgets(families, "raw", "double_token", "double_token_l2r", "double_token_r2l")
    masked, = of_equal_budgets(families, "distilled", "mask_predict")
    lattice, = of_equal_budgets(families, "raw", "lattice")
    drafter, exact = next(((family, decoder) for family, decoder in RELAXED_DRAFTS
                           if (family, f"{decoder}++_speed") in entries), RELAXED_DRAFTS[-1])
    return [
        (3, _above(f"{both} is faster than single-token decoding with as many beams", seconds,
                   alike(both, "pair_beam10"))),
        (5, _more("A smaller beam raises the ratio", seconds, alike(both, "greedy"), alike(both, "pair_beam10"))),
        *((6, _as_fast(f"{one} is as fast as {both}", seconds, (one, "pair_beam10"), (both, "pair_beam10")))
          for one in (l2r, r2l)),
        (8, _above("mask_predict10 is slower than beam search", seconds,
                   Gain((baseline, "beam10"), (masked, "mask_predict10")))),
        (8, _above("mask_predict4 is faster than beam search", seconds, over("beam10", masked, "mask_predict4"))),
        (9, _above(f"interleaved is at least {_AT_LEAST} times as fast", seconds, alike("interleaved", "beam4"),
                   _AT_LEAST)),
        (18, _above("A shallow interleaved decoder is faster than a deep one", seconds,
                    Gain(("interleaved", "beam4"), ("interleaved_deep", "beam4")))),
        (18, _above("A shallow interleaved decoder is faster than a shallow ar", seconds,
                    alike("interleaved", "beam4"))),
        (27, _above("More relaxed acceptance is faster", seconds,
                    Gain((drafter, f"{exact}++_speed"), (drafter, f"{exact}++_quality")))),
        *((31, _above(f"{block} is faster than {other}", seconds, Gain((baseline, block), (baseline, other))))
          for block, other in (("pgj3", "pgj5"), ("hgj3", "hgj5"), ("pgj3", "pj"))),
        (33, _above(f"Four times as many candidates cost less than {_LITTLE - 1:.0%} of time", seconds,
                    Gain((lattice, "lattice128"), (lattice, "lattice32")), 1 / _LITTLE)),
    ]


def _above(claim: str, seconds: Mapping[Name, Floats], gain: Gain, threshold: float = 1.0) -> Judgement:
    """Whether a decoder is more than `threshold` times as fast as its reference."""
    if absent := _absent(seconds, gain):
        return missing(claim, *absent)
    assert gain.reference is not None
    ratio = speed_ratio(seconds[gain.reference], seconds[gain.decoder])
    return compared(claim, ratio, len(seconds[gain.decoder]), f"{_words(gain)}: {in_words(ratio)}.",
                    {"ratio": _words(gain)}, threshold)


def _more(claim: str, seconds: Mapping[Name, Floats], larger: Gain, smaller: Gain) -> Judgement:
    """Whether one decoder gains more over its reference than another one over its own."""
    if absent := [*_absent(seconds, larger), *_absent(seconds, smaller)]:
        return missing(claim, *dict.fromkeys(absent))
    gains = [np.stack([seconds[one.reference], seconds[one.decoder]], 1)  # type: ignore[index]
             for one in (larger, smaller)]
    ratios = {_words(one): speed_ratio(*costs.T) for one, costs in zip((larger, smaller), gains, strict=True)}
    found = quotient(*gains)
    listed = "; ".join(f"{name}: {in_words(ratio)}" for name, ratio in ratios.items())
    return compared(claim, found, len(gains[0]), f"{listed}; their quotient: {in_words(found)}.",
                    {"ratios": {name: rounded(ratio) for name, ratio in ratios.items()}}, 1.0)


def _as_fast(claim: str, seconds: Mapping[Name, Floats], one: Name, other: Name) -> Judgement:
    """Whether the ratio of two decoders is near 1 in all of its interval; false if it is so nowhere in it."""
    gain = Gain(one, other)
    if absent := _absent(seconds, gain):
        return missing(claim, *absent)
    ratio, units = speed_ratio(seconds[other], seconds[one]), len(seconds[one])
    figures: dict[str, Any] = {"ratio": _words(gain), "estimate": rounded(ratio)}
    verdict = _near_one(ratio, units)
    if verdict == UNDECIDED and units >= FEWEST:
        margin = min((ratio.value - end for end in (1 - _ALIKE, 1 + _ALIKE)), key=abs)
        figures["sentences_to_decide"] = sentences_to_decide(margin, ratio.low, ratio.high, units)
    return Judgement(claim, verdict, f"{_words(gain)}: {in_words(ratio)}.", figures)


def _near_one(ratio: Estimate, units: int) -> str:
    if units < FEWEST:
        return UNDECIDED
    if ratio.low >= 1 - _ALIKE and ratio.high <= 1 + _ALIKE:
        return TRUE
    return FALSE if ratio.high < 1 - _ALIKE or ratio.low > 1 + _ALIKE else UNDECIDED


def _absent(seconds: Mapping[Name, Floats], gain: Gain) -> list[str]:
    """What a run lacks to compare two decoders, in words."""
    if not seconds:
        return ["long sentences"]
    if gain.decoder in seconds and gain.reference is None:
        return [f"a decoder of the baseline with as many beams as {gain.decoder[1]}"]
    return [" under ".join(name) for name in gain if name is not None and name not in seconds]


def _words(gain: Gain) -> str:
    assert gain.reference is not None
    return f"{' '.join(gain.decoder)} over {' '.join(gain.reference)}"
