"""Findings about speed: ratios of times on one clock, sentence by sentence, whose 95 % intervals decide.

All decoders of a run are searched on one device, whichever parts of each search the engine compiles there. The ratios
are over long sentences, one at a time, and paired: noise and sentences that two decoders share do not widen the
interval of their comparison. They are of seconds, or of output tokens per second where the paper compares these:
a system of shorter translations is then not faster for it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeline.evaluation.bootstrap import Estimate, Floats, ratio_of_products
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

_AT_LEAST = 1.75
"""The lowest of the five ratios that the paper has for as many beams (Tables 1 and 6)."""
_LITTLE = 1.25
"""How many times as long is a little longer; in the paper's Tables 4 to 9 it is 1.06 to 1.21 times."""
_ALIKE = 0.1
"""By which share of its speed a decoder may differ from another one that is "as fast"."""


class Timed(NamedTuple):
    """A decoder's long sentences, (N,) each."""

    seconds: Floats
    tokens: Floats
    """Of the output, end symbols not counted."""


class Gain(NamedTuple):
    """How many times as fast a decoder is as a reference."""

    decoder: Name
    reference: Name | None
    """None where the baseline has no decoder with as many beams."""
    per_token: bool = False
    """Whether the speed is in tokens per second; else, in sentences per second."""

    def sums(self, timed: Mapping[Name, Timed]) -> tuple[list[Floats], list[Floats]]:
        """The figures per sentence whose sums are multiplied, and those whose sums divide the product."""
        assert self.reference is not None
        mine, theirs = timed[self.decoder], timed[self.reference]
        return ([theirs.seconds, mine.tokens], [mine.seconds, theirs.tokens]) if self.per_token else (
            [theirs.seconds], [mine.seconds])

    def __str__(self) -> str:
        assert self.reference is not None
        unit = ", in tokens per second" if self.per_token else ""
        return f"{' '.join(self.decoder)} over {' '.join(self.reference)}{unit}"


def judge_speed(speed: Mapping[str, Any]) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding, from a report of `speed.speed_report`."""
    entries = {(one["family"], one["decoder"]): one for one in speed["contestants"]}
    timed = {name: Timed(np.array(one["seconds_long"]), np.array(one["tokens_long"], float))
             for name, one in entries.items() if one["seconds_long"]}
    families, baseline = {family for family, _ in entries}, speed["baseline"]

    def alike(family: str, decoder: str, per_token: bool = False) -> Gain:
        """Over the baseline with as many beams."""
        counterpart = entries.get((family, decoder), {}).get("counterpart")
        return Gain((family, decoder), None if counterpart is None else (baseline, counterpart), per_token)

    both, l2r, r2l = of_equal_budgets(families, "raw", "double_token", "double_token_l2r", "double_token_r2l")
    masked, = of_equal_budgets(families, "raw", "mask_predict")
    beam = baseline, "beam10"
    lattice, = of_equal_budgets(families, "raw", "lattice")
    drafter, exact = next(((family, decoder) for family, decoder in RELAXED_DRAFTS
                           if (family, f"{decoder}++_speed") in entries), RELAXED_DRAFTS[-1])
    return [
        (3, _above(f"{both} is faster than single-token decoding with as many beams", timed,
                   alike(both, "pair_beam10", per_token=True))),
        (5, _more("A smaller beam raises the ratio", timed, alike(both, "greedy", per_token=True),
                  alike(both, "pair_beam10", per_token=True))),
        *((6, _as_fast(f"{one} is as fast as {both}", timed, Gain((one, "pair_beam10"), (both, "pair_beam10"), True)))
          for one in (l2r, r2l)),
        (8, _above("mask_predict10 is slower than beam search", timed, Gain(beam, (masked, "mask_predict10"), True))),
        (8, _above("mask_predict4 is faster than beam search", timed, Gain((masked, "mask_predict4"), beam, True))),
        (9, _above(f"interleaved is at least {_AT_LEAST} times as fast", timed, alike("interleaved", "beam4"),
                   _AT_LEAST)),
        (18, _above("A shallow interleaved decoder is faster than a deep one", timed,
                    Gain(("interleaved", "beam4"), ("interleaved_deep", "beam4")))),
        (18, _above("A shallow interleaved decoder is faster than a shallow ar", timed,
                    alike("interleaved", "beam4"))),
        (27, _above("More relaxed acceptance is faster", timed,
                    Gain((drafter, f"{exact}++_speed"), (drafter, f"{exact}++_quality")))),
        *((31, _above(f"{block} is faster than {other}", timed, Gain((baseline, block), (baseline, other))))
          for block, other in (("pgj3", "pgj5"), ("pgj3", "pj"))),
        (33, _above(f"Four times as many candidates cost less than {_LITTLE - 1:.0%} of time", timed,
                    Gain((lattice, "lattice128"), (lattice, "lattice32")), 1 / _LITTLE)),
    ]


def _above(claim: str, timed: Mapping[Name, Timed], gain: Gain, threshold: float = 1.0) -> Judgement:
    """Whether a decoder is more than `threshold` times as fast as its reference."""
    if absent := _absent(timed, gain):
        return missing(claim, *absent)
    assert gain.reference is not None
    ratio = ratio_of_products(*gain.sums(timed))
    return compared(claim, ratio, len(timed[gain.decoder].seconds), f"{gain}: {in_words(ratio)}.",
                    {"ratio": str(gain)}, threshold)


def _more(claim: str, timed: Mapping[Name, Timed], larger: Gain, smaller: Gain) -> Judgement:
    """Whether one decoder gains more over its reference than another one over its own."""
    if absent := [*_absent(timed, larger), *_absent(timed, smaller)]:
        return missing(claim, *dict.fromkeys(absent))
    ratios = {str(one): ratio_of_products(*one.sums(timed)) for one in (larger, smaller)}
    (over, under), (over_it, under_it) = larger.sums(timed), smaller.sums(timed)
    found = ratio_of_products([*over, *under_it], [*under, *over_it])
    listed = "; ".join(f"{name}: {in_words(ratio)}" for name, ratio in ratios.items())
    return compared(claim, found, len(over[0]), f"{listed}; their quotient: {in_words(found)}.",
                    {"ratios": {name: rounded(ratio) for name, ratio in ratios.items()}}, 1.0)


def _as_fast(claim: str, timed: Mapping[Name, Timed], gain: Gain) -> Judgement:
    """Whether the ratio of two decoders is near 1 in all of its interval; false if it is so nowhere in it."""
    if absent := _absent(timed, gain):
        return missing(claim, *absent)
    ratio, units = ratio_of_products(*gain.sums(timed)), len(timed[gain.decoder].seconds)
    figures: dict[str, Any] = {"ratio": str(gain), "estimate": rounded(ratio)}
    verdict = _near_one(ratio, units)
    if verdict == UNDECIDED and units >= FEWEST:
        margin = min((ratio.value - end for end in (1 - _ALIKE, 1 + _ALIKE)), key=abs)
        figures["sentences_to_decide"] = sentences_to_decide(margin, ratio.low, ratio.high, units)
    return Judgement(claim, verdict, f"{gain}: {in_words(ratio)}.", figures)


def _near_one(ratio: Estimate, units: int) -> str:
    if units < FEWEST:
        return UNDECIDED
    if ratio.low >= 1 - _ALIKE and ratio.high <= 1 + _ALIKE:
        return TRUE
    return FALSE if ratio.high < 1 - _ALIKE or ratio.low > 1 + _ALIKE else UNDECIDED


def _absent(timed: Mapping[Name, Timed], gain: Gain) -> list[str]:
    """What a run lacks to compare two decoders, in words."""
    if not timed:
        return ["long sentences"]
    if gain.decoder in timed and gain.reference is None:
        return [f"a decoder of the baseline with as many beams as {gain.decoder[1]}"]
    return [" under ".join(name) for name in (gain.decoder, gain.reference) if name is not None and name not in timed]
