"""Findings about quality: a margin, a statistic of several systems' BLEU, is above 0.

It is true if the margin's 95 % interval (paired bootstrap over the test sentences) lies above 0, false if it lies
below. A system with less than half of the baseline's BLEU has not learnt its task, and no comparison with it decides
anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import sub
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import Estimate, interval
from pipeline.evaluation.claims.judgement import (
    NOT_COMPARABLE,
    NOT_LEARNT,
    RELAXED_DRAFTS,
    Judgement,
    compared,
    in_words,
    missing,
)
from pipeline.evaluation.resampled_bleu import Scores
from pipeline.evaluation.rows import Name


@dataclass(frozen=True)
class Comparison:
    """A statement about the BLEU of some systems."""

    statement: str
    systems: tuple[Name, ...]
    margin: Callable[..., Any]
    """A function of the systems' BLEU, numbers or arrays of resamples; above 0 where the statement holds."""
    learnt: bool = True
    """Whether all systems must have learnt."""
    loss: Callable[..., Any] | None = None
    """Of the same systems, what the statement supposes to be above 0; None: nothing."""


@dataclass(frozen=True)
class Claim:
    """A finding about quality: all comparisons hold."""

    finding: int
    variants: tuple[tuple[Comparison, ...], ...]
    """Sets of comparisons that each answer it, the fairest first; the first one of which most were measured counts."""
    note: str = ""
    """What a reader must also know."""


def judge_quality(bleu: Mapping[Name, Scores], sentences: int, baseline: Name) -> list[tuple[int, Judgement]]:
    """The judgements of every comparison, by the number of its finding.

    Args:
        bleu: of the systems that were evaluated, on the same resamples.
        sentences: of the test set.
        baseline: with whose BLEU that of others is compared to tell whether they have learnt.
    """
    least = _least(bleu, baseline)

    def measured(variant: tuple[Comparison, ...]) -> int:
        return sum(bleu.keys() >= set(one.systems) for one in variant)

    return [(claim.finding, _compare(one, claim.note, bleu, least, sentences))
            for claim in CLAIMS for one in max(claim.variants, key=measured)]


def unlearnt(bleu: Mapping[Name, Scores], baseline: Name) -> set[str]:
    """The families that have not learnt their task: none of their decoders has half of the baseline's BLEU."""
    least = _least(bleu, baseline)
    learnt = {family for (family, _), scores in bleu.items() if scores.bleu >= least}
    return {family for family, _ in bleu} - learnt


def _least(bleu: Mapping[Name, Scores], baseline: Name) -> float:
    """The BLEU from which on a system has learnt its task."""
    return bleu[baseline].bleu / 2 if baseline in bleu else 0.0


def _compare(one: Comparison, note: str, bleu: Mapping[Name, Scores], least: float, sentences: int) -> Judgement:
    absent = [f"{family} under {decoder}" for family, decoder in one.systems if (family, decoder) not in bleu]
    if absent:
        return missing(one.statement, *absent)
    scores, resamples = zip(*(bleu[name] for name in one.systems), strict=True)
    margin = Estimate(float(one.margin(*scores)), *interval(one.margin(*resamples), sentences))
    named = {" ".join(name): round(score, 4) for name, score in zip(one.systems, scores, strict=True)}
    why = f"{', '.join(f'{name} {score:.2f}' for name, score in named.items())} BLEU: margin {in_words(margin)}."
    found = compared(one.statement, margin, sentences, why, {"bleu": named, **({"note": note} if note else {})})
    if one.loss is not None and interval(one.loss(*resamples), sentences)[0] <= 0:
        return replace(found, verdict=NOT_COMPARABLE, why=f"{why} Without distillation, nothing is surely lost.")
    if one.learnt and min(scores) < least:
        names = (" ".join(name) for name, score in zip(one.systems, scores, strict=True) if score < least)
        return replace(found, verdict=NOT_COMPARABLE, why=f"{why} {NOT_LEARNT}: {', '.join(names)}.")
    return found


def _beats(better: str, worse: str, decoder: str) -> Comparison:
    return Comparison(f"{better} beats {worse} under {decoder}", ((better, decoder), (worse, decoder)), sub)


def _above(better: Name, worse: Name, learnt: bool = True) -> Comparison:
    return Comparison(f"{' '.join(better)} beats {' '.join(worse)}", (better, worse), sub, learnt)


def _costs_less(cheap: Name, dear: Name, most: float) -> Comparison:
    return Comparison(f"{' '.join(cheap)} costs less than {most} BLEU against {' '.join(dear)}", (cheap, dear),
                      lambda mine, theirs: mine + most - theirs)


def _narrows(family: str, share: float = 0.0) -> Comparison:
    """Distillation takes away more than a share of the gap."""
    systems = tuple((name + side, "beam4") for side in ("_raw", "_distilled") for name in ("ar", family))
    much = f"more than {share:.0%} of" if share else "a part of"
    statement = f"Distillation takes away {much} the gap between ar and {family} under beam4"
    return Comparison(statement, systems, lambda ar_raw, raw, ar_distilled, distilled:
                      (1 - share) * (ar_raw - raw) - (ar_distilled - distilled),
                      loss=lambda ar_raw, raw, *_: ar_raw - raw)


def _sets(make: Callable[[str], tuple[Comparison, ...]]) -> tuple[tuple[Comparison, ...], ...]:
    """Comparisons of systems with equal budgets on raw data, or of a run's ordinary ones."""
    return make("_raw"), make("")


_NOTE = "Only systems whose names end in _raw have equal starts, data and budgets."
_MORE_STEPS = f"{_NOTE} Mask-Predict, which learns more slowly, may have more steps."
_OTHER_ABLATIONS = ("vanilla_mask", "vanilla_positions", "independent_directions")

CLAIMS: tuple[Claim, ...] = (
    Claim(1, _sets(lambda side: (
        _costs_less((f"double_token{side}", "pair_beam10"), (f"ar{side}", "beam10"), 1.03),)), _NOTE),
    Claim(2, _sets(lambda side: tuple(_beats(f"double_token{side}", f"double_token_{direction}{side}", "pair_beam10")
                                      for direction in ("l2r", "r2l"))), _NOTE),
    Claim(8, _sets(lambda side: tuple(_above((f"double_token{side}", "pair_beam10"),
                                             (f"mask_predict{side}", f"mask_predict{iterations}"))
                                      for iterations in (10, 4))), _MORE_STEPS),
    Claim(10, ((_narrows("interleaved", 0.5), _narrows("interleaved_sa"), _narrows("multi_directional")),)),
    *(Claim(number, ((_beats("interleaved_raw", f"{name}_raw", "beam4"),),))
      for number, name in ((11, "vanilla_mask"), (12, "vanilla_positions"), (14, "independent_directions"))),
    Claim(13, ((_beats("interleaved_raw", "middle_to_side_raw", "beam4"),
                Comparison("middle_to_side_raw is worse than every other ablation",
                           (("middle_to_side_raw", "beam4"), *((f"{name}_raw", "beam4") for name in _OTHER_ABLATIONS)),
                           lambda worst, *others: np.minimum.reduce(others) - worst)),)),
    # The default run has no system that predicts four neighbouring words per step.
    Claim(15, ((_beats("interleaved_raw", "semi_autoregressive_raw", "beam4"),
                _beats("interleaved_sa_raw", "semi_autoregressive4_raw", "beam4")),
               (_beats("interleaved", "semi_autoregressive", "beam4"),)), _NOTE),
    Claim(17, _sets(lambda side: (_beats(f"interleaved_sa{side}", f"multi_directional{side}", "beam4"),)), _NOTE),
    Claim(27, tuple((_above((drafter, f"{exact}++_quality"), (drafter, f"{exact}++_speed")),)
                    for drafter, exact in RELAXED_DRAFTS)),
    Claim(33, _sets(lambda side: tuple(_above((f"lattice{side}", more), (f"lattice{side}", fewer)) for more, fewer in
                                       (("lattice64", "lattice32"), ("lattice128", "lattice64"))))),
    Claim(34, ((*(_above((f"lattice_{layers}", "lattice64"), (f"nat_{layers}", "nat")) for layers in (1, 3, 6)),
                Comparison("Five layers less cost a lattice less than a non-autoregressive model",
                           tuple((f"{family}_{layers}", decoder) for family, decoder in
                                 (("nat", "nat"), ("lattice", "lattice64")) for layers in (6, 1)),
                           lambda nat_6, nat_1, lattice_6, lattice_1: (nat_6 - nat_1) - (lattice_6 - lattice_1)),
                _above(("lattice_1", "lattice64"), ("nat_6", "nat"))),),
          "The lattices learnt from raw and distilled data and start from the teacher; the non-autoregressive models "
          "learnt from distilled data and start from interleaved. Batches and warm-up differ as well."),
    Claim(36, (tuple(_beats("lattice_distilled", "lattice_raw", decoder)
                     for decoder in ("lattice32", "lattice64", "lattice128")),)),
    Claim(37, ((_above(("lattice", "lattice64"), ("lattice", "counts"), learnt=False),),)),
    Claim(38, ((_costs_less(("lattice_1", "lattice64"), ("lattice_6", "lattice64"), 1.0),),)),
    Claim(40, (tuple(_above((f"interleaved_{words}_raw", "beam4_deduplicated"), (f"interleaved_{words}_raw", "beam4"))
                     for words in range(3, 7)),)),
    Claim(41, tuple((_above((drafter, f"{exact}++_quality"), (drafter, exact)),) for drafter, exact in RELAXED_DRAFTS)),
)
