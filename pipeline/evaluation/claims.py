"""The papers' claims, tested on this run: `reports/claims.json`.

A claim about quality states that a margin, a statistic of several systems' BLEU, is above 0. It is true if the margin's
95 % interval (paired bootstrap over the test sentences) lies above 0, false if it lies below, undecided otherwise. A
claim about speed compares ratios, whose intervals must not overlap. The intervals describe what another test set would
change; they do not contain what another seed of the training would change.

A claim of several comparisons has a row for each of them, followed by one for all: false if one of them is false, true
if all are true.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import sub
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import Floats, Resampled, interval
from pipeline.evaluation.quality import BOOTSTRAP_SEED
from pipeline.evaluation.rows import Name

IMAMURA, ZHANG, DENG = "Imamura and Sumita", "Zhang et al. 2020", "Deng and Rush 2021"
TRUE, FALSE, UNDECIDED, NOT_MEASURED = "true", "false", "undecided", "not measured"


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim or on one of its comparisons."""

    claim: str
    paper: str
    where: str
    verdict: str
    why: str
    figures: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """A statement about the BLEU of some systems."""

    statement: str
    systems: tuple[Name, ...]
    margin: Callable[..., Any]
    """A function of the systems' BLEU, numbers or arrays of resamples; above 0 where the statement holds."""


@dataclass(frozen=True)
class Claim:
    """A paper's claim: all of its comparisons hold."""

    statement: str
    paper: str
    where: str
    comparisons: tuple[Comparison, ...]
    note: str = ""
    """What a reader must also know."""


def judge(texts: Mapping[Name, Sequence[str]], references: Sequence[Sequence[str]], speed: Mapping[str, Any],
          tokenizer: str, samples: int) -> list[dict[str, Any]]:
    """A row for every claim and each of its comparisons, whether its systems were measured or not.

    Args:
        texts: hypotheses (N,) of the systems that were evaluated.
        references: (R, N), R per sentence.
        speed: from `speed.speed_report`.
        tokenizer: the tokenizer of BLEU.
        samples: resamples of the bootstrap.

    Raises:
        PipelineError: unequal numbers of sentences, none at all, or an unknown tokenizer.
    """
    resampled = Resampled(references, tokenizer, samples, BOOTSTRAP_SEED)
    wanted = {name for claim in CLAIMS for one in claim.comparisons for name in one.systems}
    bleu = {name: resampled(texts[name]) for name in sorted(wanted & texts.keys())}
    of_quality = [row for claim in CLAIMS for row in _judge_quality(claim, bleu)]
    return [asdict(row) for row in [*of_quality, *_judge_speed(speed)]]


def _judge_quality(claim: Claim, bleu: Mapping[Name, tuple[float, Floats]]) -> list[Judgement]:
    rows = [_compare(claim, one, bleu) for one in claim.comparisons]
    if len(rows) == 1:
        return [replace(rows[0], claim=claim.statement)]
    found = Counter(row.verdict for row in rows)
    if found[FALSE]:
        verdict = FALSE
    elif found[TRUE] == len(rows):
        verdict = TRUE
    else:
        verdict = NOT_MEASURED if found[NOT_MEASURED] else UNDECIDED
    counts = ", ".join(f"{found[one]} {one}" for one in (TRUE, FALSE, UNDECIDED, NOT_MEASURED) if found[one])
    overall = Judgement(claim.statement, claim.paper, claim.where, verdict, f"Of {len(rows)} comparisons: {counts}.",
                        {"comparisons": {row.claim: row.verdict for row in rows}})
    return [*rows, overall]


def _compare(claim: Claim, one: Comparison, bleu: Mapping[Name, tuple[float, Floats]]) -> Judgement:
    note = {"note": claim.note} if claim.note else {}
    if missing := [name for name in one.systems if name not in bleu]:
        return Judgement(one.statement, claim.paper, claim.where, NOT_MEASURED, _not_measured(missing), note)
    scores, resamples = zip(*(bleu[name] for name in one.systems), strict=True)
    margin = float(one.margin(*scores))
    low, high = interval(one.margin(*resamples))
    named = {" ".join(name): round(score, 4) for name, score in zip(one.systems, scores, strict=True)}
    why = (", ".join(f"{name} {score:.2f}" for name, score in named.items())
           + f" BLEU: margin {margin:.2f} (95 % interval {low:.2f} to {high:.2f}).")
    figures = {"bleu": named, "margin": round(margin, 4), "interval": [round(low, 4), round(high, 4)], **note}
    return Judgement(one.statement, claim.paper, claim.where, _verdict(low > 0, high < 0), why, figures)


def _verdict(holds: bool, fails: bool) -> str:
    return TRUE if holds else FALSE if fails else UNDECIDED


def _not_measured(missing: Sequence[Name]) -> str:
    listed = ", ".join(f"{family} under {decoder}" for family, decoder in missing)
    return f"Not measured: {listed}; the profiles `papers` and `lattice` measure what others do not."


def _judge_speed(speed: Mapping[str, Any]) -> list[Judgement]:
    """The claims about the speed ratios of the trained systems, [ratio, low, high] over the long sentences."""
    ratios = {entry["decoder"]: entry.get("ratio_vs_ar_same_decoder")
              for entry in speed["contestants"] if entry["family"] == "double_token"}
    wide, narrow = ratios.get("pair_beam10"), ratios.get("greedy")
    none: dict[str, Any] = {}
    faster = NOT_MEASURED, _not_measured([("double_token", "pair_beam10")]), none
    rises = NOT_MEASURED, "Not measured: `make repro` measures it.", none
    if wide:
        name = "double_token pair_beam10"
        faster = (_verdict(wide[1] > 1, wide[2] < 1), f"{_LONG}: {name} is {_in_words(wide)} times as fast.",
                  {"ratios": {name: _rounded(wide)}})
    if wide and narrow:
        rises = (_verdict(narrow[1] > wide[2], narrow[2] < wide[1]),
                 f"{_LONG}: {_in_words(wide)} at pair_beam10, {_in_words(narrow)} at greedy.",
                 {"ratios": {"pair_beam10": _rounded(wide), "greedy": _rounded(narrow)}})
    return [Judgement("Double-token decoding is faster than single-token decoding with as many beams", IMAMURA,
                      "Table 2", *faster),
            Judgement("A smaller beam raises the double-token speed ratio", IMAMURA, "Figure 3", *rises)]


_LONG = "Long sentences of the test set"


def _in_words(ratio: Sequence[float]) -> str:
    return "{:.2f} (95 % interval {:.2f} to {:.2f})".format(*ratio)


def _rounded(ratio: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in ratio]


def _beats(better: str, worse: str, decoder: str) -> Comparison:
    return Comparison(f"{better} beats {worse} under {decoder}", ((better, decoder), (worse, decoder)), sub)


def _above(better: Name, worse: Name) -> Comparison:
    return Comparison(f"{' '.join(better)} beats {' '.join(worse)}", (better, worse), sub)


def _narrows(family: str, decoder: str, baseline: str) -> Comparison:
    systems = tuple((name + side, search) for side in ("_raw", "_distilled")
                    for name, search in (("ar", baseline), (family, decoder)))
    return Comparison(f"Distillation narrows the gap between ar ({baseline}) and {family} ({decoder})", systems,
                      lambda ar_raw, raw, ar_distilled, distilled: (ar_raw - raw) - (ar_distilled - distilled))


def _of_orders(suffix: str, run: str, note: str) -> tuple[Claim, ...]:
    """The claims that compare generation orders with each other, for the systems of one run."""
    double, interleaved, both = f"double_token{suffix}", f"interleaved{suffix}", f"interleaved_sa{suffix}"
    against_two = _beats(interleaved, f"semi_autoregressive{suffix}", "beam4")
    # The default run has no system that predicts four neighbouring words per step.
    against_four = (_beats(both, f"semi_autoregressive4{suffix}", "beam4"),) if suffix else ()
    return (
        Claim(f"Bidirectional double-token decoding beats both unidirectional ones ({run})", IMAMURA, "Table 2",
              (_beats(double, f"double_token_l2r{suffix}", "pair_beam10"),
               _beats(double, f"double_token_r2l{suffix}", "pair_beam10")), note),
        Claim(f"IBDecoder beats vanilla semi-autoregressive decoding with as many tokens per step ({run})", ZHANG,
              "Table 2", (against_two, *against_four), note),
        Claim(f"IBDecoder + SA beats IMDecoder ({run})", ZHANG, "Table 1",
              (_beats(both, f"multi_directional{suffix}", "beam4"),), note))


_ABLATIONS = ("vanilla_mask", "vanilla_positions", "middle_to_side", "independent_directions")
_WORST_FIRST = ("middle_to_side_raw", "vanilla_mask_raw", "vanilla_positions_raw", "independent_directions_raw")

CLAIMS: tuple[Claim, ...] = (
    *_of_orders("", "default run", "The systems start from different weights and are trained for different times."),
    *_of_orders("_raw", "raw data, equal budgets", ""),
    Claim("Distillation narrows the gap of every parallel family", ZHANG, "Table 1",
          (_narrows("double_token", "pair_beam10", "beam10"),
           *(_narrows(family, "beam4", "beam4")
             for family in ("interleaved", "semi_autoregressive", "interleaved_sa", "multi_directional")),
           _narrows("mask_predict", "mask_predict10", "beam4")),
          "Table 1 has the interleaved and multi-directional systems; for their own systems, Imamura and "
          "Sumita (footnote 3) state that distillation improves all of them alike."),
    Claim("Each ablation costs BLEU", ZHANG, "Table 2",
          tuple(_beats("interleaved_raw", f"{name}_raw", "beam4") for name in _ABLATIONS)),
    Claim("Middle-to-side is the worst ablation", ZHANG, "Table 2",
          (Comparison("middle_to_side_raw is worse than every other ablation",
                      tuple((name, "beam4") for name in _WORST_FIRST),
                      lambda worst, *others: np.minimum.reduce(others) - worst),)),
    Claim("A lattice is better than its counts alone", DENG, "Table 2",
          (_above(("lattice", "lattice64"), ("lattice", "counts")),)),
    Claim("More candidates per position raise BLEU", DENG, "Tables 4 to 9",
          (_above(("lattice", "lattice64"), ("lattice", "lattice32")),
           _above(("lattice", "lattice128"), ("lattice", "lattice64")))),
    Claim("Distillation raises the lattice's BLEU (equal budgets)", DENG, "Tables 4 to 9",
          tuple(_beats("lattice_distilled", "lattice_raw", decoder)
                for decoder in ("lattice32", "lattice64", "lattice128"))),
    Claim("A lattice beats a non-autoregressive model with as many layers", DENG, "Figure 3",
          tuple(_above((f"lattice_{layers}", "lattice64"), (f"nat_{layers}", "nat")) for layers in (1, 3, 6))),
    Claim("One scorer layer costs less than one BLEU against six", DENG, "Table 3",
          (Comparison("lattice_1 costs less than one BLEU against lattice_6 under lattice64",
                      (("lattice_1", "lattice64"), ("lattice_6", "lattice64")),
                      lambda cheap, dear: cheap + 1 - dear),)),
)
