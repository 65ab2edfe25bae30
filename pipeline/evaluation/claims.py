"""The papers' findings, asked of this run: `reports/claims.json`.

A finding about quality says that a margin, a statistic of several systems' BLEU, is above 0. It is true if the margin's
95 % interval (paired bootstrap over the test sentences) lies above 0, false if it lies below, undecided otherwise. A
finding about speed compares ratios, whose intervals must not overlap. Intervals say what another test set would
change; what another seed of the training would change is not in them.

A finding of several comparisons has a row for each of them and one behind them: false if one of them is false, true if
all are true.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import Floats, Resampled, interval
from pipeline.evaluation.rows import Name

IMAMURA, ZHANG, DENG = "Imamura and Sumita", "Zhang et al. 2020", "Deng and Rush 2021"
TRUE, FALSE, UNDECIDED, NOT_MEASURED = "true", "false", "undecided", "not measured"


@dataclass(frozen=True)
class Row:
    """What became of a finding or of one of its comparisons."""

    claim: str
    paper: str
    where: str
    verdict: str
    why: str
    figures: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """A statement about the BLEU of some systems."""

    claim: str
    systems: tuple[Name, ...]
    margin: Callable[..., Any]
    """Of the systems' BLEU, numbers or arrays of resamples alike; above 0 where the statement holds."""


@dataclass(frozen=True)
class Finding:
    """What a paper found, by one comparison or by several."""

    claim: str
    paper: str
    where: str
    comparisons: tuple[Comparison, ...]
    note: str = ""
    """What a reader must know besides."""


def claims(texts: Mapping[Name, Sequence[str]], references: Sequence[Sequence[str]], speed: Mapping[str, Any],
           tokenizer: str, samples: int, seed: int) -> list[dict[str, Any]]:
    """A row for every finding and each of its comparisons, whether its systems were measured or not.

    Args:
        texts: hypotheses (N,) of the systems that were evaluated.
        references: (R, N), R of each sentence.
        speed: from `speed.speed_report`.
        tokenizer: BLEU's.
        samples, seed: of the bootstrap.

    Raises:
        PipelineError: unequal numbers of sentences, none at all, or an unknown tokenizer.
    """
    resampled = Resampled(references, tokenizer, samples, seed)
    wanted = {name for finding in FINDINGS for one in finding.comparisons for name in one.systems}
    bleu = {name: resampled(texts[name]) for name in sorted(wanted & texts.keys())}
    rows = [row for finding in FINDINGS for row in _judge(finding, bleu)]
    return [asdict(row) for row in [*rows, *_timed(speed)]]


def _judge(finding: Finding, bleu: Mapping[Name, tuple[float, Floats]]) -> list[Row]:
    rows = [_compare(finding, one, bleu) for one in finding.comparisons]
    if len(rows) == 1:
        return [replace(rows[0], claim=finding.claim)]
    return [*rows, _all_of(finding.claim, finding.paper, finding.where, rows)]


def _compare(finding: Finding, one: Comparison, bleu: Mapping[Name, tuple[float, Floats]]) -> Row:
    note = {"note": finding.note} if finding.note else {}
    if missing := [name for name in one.systems if name not in bleu]:
        return Row(one.claim, finding.paper, finding.where, NOT_MEASURED, _not_measured(missing), note)
    scores, resamples = zip(*(bleu[name] for name in one.systems), strict=True)
    margin = float(one.margin(*scores))
    low, high = interval(one.margin(*resamples))
    verdict = TRUE if low > 0 else FALSE if high < 0 else UNDECIDED
    named = {" ".join(name): round(score, 4) for name, score in zip(one.systems, scores, strict=True)}
    why = (", ".join(f"{name} {score:.2f}" for name, score in named.items())
           + f" BLEU: margin {margin:.2f} (95 % interval {low:.2f} to {high:.2f}).")
    figures = {"bleu": named, "margin": round(margin, 4), "interval": [round(low, 4), round(high, 4)], **note}
    return Row(one.claim, finding.paper, finding.where, verdict, why, figures)


def _all_of(claim: str, paper: str, where: str, rows: Sequence[Row]) -> Row:
    """The statement that all of some rows are true."""
    found = Counter(row.verdict for row in rows)
    if found[FALSE]:
        verdict = FALSE
    elif found[TRUE] == len(rows):
        verdict = TRUE
    else:
        verdict = NOT_MEASURED if found[NOT_MEASURED] else UNDECIDED
    counts = ", ".join(f"{found[one]} {one}" for one in (TRUE, FALSE, UNDECIDED, NOT_MEASURED) if found[one])
    why = f"Of {len(rows)} comparisons: {counts}."
    return Row(claim, paper, where, verdict, why, {"comparisons": {row.claim: row.verdict for row in rows}})


def _not_measured(missing: Sequence[Name]) -> str:
    listed = ", ".join(f"{family} under {decoder}" for family, decoder in missing)
    return f"Not measured: {listed}; the profiles `papers` and `lattice` measure what others do not."


# Speed: a ratio is [ratio, low, high].

_FASTER = "Double-token decoding is faster than single-token decoding with as many beams"
_SMALLER_BEAM = "A smaller beam raises the double-token speed ratio"
_LONG = "Long sentences of the test set"


def _timed(speed: Mapping[str, Any]) -> list[Row]:
    """What the trained systems' speeds say."""
    ratios = {(entry["family"], entry["decoder"]): entry.get("ratio_vs_ar_same_decoder")
              for entry in speed["contestants"]}
    wide, narrow = ("double_token", "pair_beam10"), ("double_token", "greedy")
    return [_above_one(_FASTER, "Table 2", wide, ratios.get(wide)),
            _rises(_SMALLER_BEAM, "Figure 3", {name[1]: ratios.get(name) for name in (wide, narrow)})]


def _above_one(claim: str, where: str, name: Name, ratio: Sequence[float] | None) -> Row:
    if ratio is None:
        return Row(claim, IMAMURA, where, NOT_MEASURED, _not_measured([name]), {})
    verdict = TRUE if ratio[1] > 1 else FALSE if ratio[2] < 1 else UNDECIDED
    label = " ".join(name)
    return Row(claim, IMAMURA, where, verdict, f"{_LONG}: {label} is {_in_words(ratio)} times as fast.",
               {"ratios": {label: _rounded(ratio)}})


def _rises(claim: str, where: str, points: Mapping[str, Sequence[float] | None]) -> Row:
    """The statement that the second of two ratios is higher than the first."""
    known = {label: ratio for label, ratio in points.items() if ratio is not None}
    if len(known) < 2:
        return Row(claim, IMAMURA, where, NOT_MEASURED, "Not measured: `make repro` measures it.", {})
    (first, start), (last, stop) = known.items()
    why = f"{_LONG}: {_in_words(start)} at {first}, {_in_words(stop)} at {last}."
    return Row(claim, IMAMURA, where, _higher(stop, start), why,
               {"ratios": {label: _rounded(ratio) for label, ratio in known.items()}})


def _higher(one: Sequence[float], other: Sequence[float]) -> str:
    return TRUE if one[1] > other[2] else FALSE if one[2] < other[1] else UNDECIDED


def _in_words(ratio: Sequence[float]) -> str:
    return "{:.2f} (95 % interval {:.2f} to {:.2f})".format(*ratio)


def _rounded(ratio: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in ratio]


# Quality: the findings.

def _difference(better: Any, worse: Any) -> Any:
    return better - worse


def _narrowing(ar_raw: Any, raw: Any, ar_distilled: Any, distilled: Any) -> Any:
    return (ar_raw - raw) - (ar_distilled - distilled)


def _costs_less_than_one(cheap: Any, dear: Any) -> Any:
    return cheap + 1 - dear


def _below_all(worst: Any, *others: Any) -> Any:
    return np.minimum.reduce(others) - worst


def _beats(better: str, worse: str, decoder: str) -> Comparison:
    return Comparison(f"{better} beats {worse} under {decoder}", ((better, decoder), (worse, decoder)), _difference)


def _above(better: Name, worse: Name) -> Comparison:
    return Comparison(f"{' '.join(better)} beats {' '.join(worse)}", (better, worse), _difference)


def _narrows(family: str, decoder: str, baseline: str) -> Comparison:
    systems = tuple((name + side, search) for side in ("_raw", "_distilled")
                    for name, search in (("ar", baseline), (family, decoder)))
    return Comparison(f"Distillation narrows the gap between ar ({baseline}) and {family} ({decoder})", systems,
                      _narrowing)


def _of_orders(suffix: str, run: str, note: str) -> tuple[Finding, ...]:
    """What compares orders with each other, for the systems of one run."""
    double, interleaved, both = f"double_token{suffix}", f"interleaved{suffix}", f"interleaved_sa{suffix}"
    against_two = _beats(interleaved, f"semi_autoregressive{suffix}", "beam4")
    # The default run has no system of four neighbouring words a step.
    against_four = (_beats(both, f"semi_autoregressive4{suffix}", "beam4"),) if suffix else ()
    return (
        Finding(f"Bidirectional double-token decoding beats both unidirectional ones ({run})", IMAMURA, "Table 2",
                (_beats(double, f"double_token_l2r{suffix}", "pair_beam10"),
                 _beats(double, f"double_token_r2l{suffix}", "pair_beam10")), note),
        Finding(f"IBDecoder beats vanilla semi-autoregressive decoding with as many tokens a step ({run})", ZHANG,
                "Table 2", (against_two, *against_four), note),
        Finding(f"IBDecoder + SA beats IMDecoder ({run})", ZHANG, "Table 1",
                (_beats(both, f"multi_directional{suffix}", "beam4"),), note))


_ABLATIONS = ("vanilla_mask", "vanilla_positions", "middle_to_side", "independent_directions")
_WORST_FIRST = ("middle_to_side_raw", "vanilla_mask_raw", "vanilla_positions_raw", "independent_directions_raw")

FINDINGS: tuple[Finding, ...] = (
    *_of_orders("", "default run", "The systems start from different weights and are trained for different times."),
    *_of_orders("_raw", "raw data, equal budgets", ""),
    Finding("Distillation narrows the gap of every parallel family", ZHANG, "Table 1",
            (_narrows("double_token", "pair_beam10", "beam10"),
             *(_narrows(family, "beam4", "beam4")
               for family in ("interleaved", "semi_autoregressive", "interleaved_sa", "multi_directional")),
             _narrows("mask_predict", "mask_predict10", "beam4")),
            "Table 1 has the interleaved and multi-directional systems; of their own systems Imamura and Sumita "
            "(footnote 3) say that distillation improves all of them alike."),
    Finding("Each ablation costs BLEU", ZHANG, "Table 2",
            tuple(_beats("interleaved_raw", f"{name}_raw", "beam4") for name in _ABLATIONS)),
    Finding("Middle-to-side is the worst ablation", ZHANG, "Table 2",
            (Comparison("middle_to_side_raw is worse than every other ablation",
                        tuple((name, "beam4") for name in _WORST_FIRST), _below_all),)),
    Finding("A lattice is better than its counts alone", DENG, "Table 2",
            (_above(("lattice", "lattice64"), ("lattice", "counts")),)),
    Finding("More candidates a position raise BLEU", DENG, "Tables 4 to 9",
            (_above(("lattice", "lattice64"), ("lattice", "lattice32")),
             _above(("lattice", "lattice128"), ("lattice", "lattice64")))),
    Finding("Distillation raises the lattice's BLEU (equal budgets)", DENG, "Tables 4 to 9",
            tuple(_beats("lattice_distilled", "lattice_raw", decoder)
                  for decoder in ("lattice32", "lattice64", "lattice128"))),
    Finding("A lattice beats a non-autoregressive model with as many layers", DENG, "Figure 3",
            tuple(_above((f"lattice_{layers}", "lattice64"), (f"nat_{layers}", "nat")) for layers in (1, 3, 6))),
    Finding("One scorer layer costs less than one BLEU against six", DENG, "Table 3",
            (Comparison("lattice_1 costs less than one BLEU against lattice_6 under lattice64",
                        (("lattice_1", "lattice64"), ("lattice_6", "lattice64")), _costs_less_than_one),)),
)
