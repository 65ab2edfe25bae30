"""The papers' claims, on systems whose errors are scripted: every verdict, missing systems, summaries."""

import json
import random
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from pipeline.evaluation.bootstrap import Estimate
from pipeline.evaluation.claims import judge
from pipeline.evaluation.claims.findings import DENG, FINDINGS, IMAMURA, ZHANG
from pipeline.evaluation.claims.judgement import sentences_to_decide
from pipeline.evaluation.claims.quality import CLAIMS
from pipeline.evaluation.quality import score
from pipeline.evaluation.resampled_bleu import Resampled
from pipeline.params import parse_params
from pipeline.strict_yaml import read_yaml
from pipeline.systems import lay_over

ROOT = Path(__file__).parents[2]

REFERENCES = [f"{number} {mood} {bird} carried a {thing} over the frozen lake" for number, (mood, bird, thing)
              in enumerate(product(("brave", "drowsy", "hungry"), ("heron", "magpie", "swan"), ("spoon", "bell")), 11)]
Name = tuple[str, str]


def garbled(share: float, seed: int = 1) -> list[str]:
    """The references with a share of their words lost; of two shares with one seed the larger is worse everywhere."""
    draw = random.Random(seed)
    return [" ".join("um" if draw.random() < share else word for word in sentence.split()) for sentence in REFERENCES]


LONG = 20
"""Long sentences that are timed."""


def contestant(family: str, decoder: str, seconds: float, noise: float = 0.0, counterpart: str = "",
               tokens: int = 10) -> dict[str, Any]:
    """A decoder that takes as long for every sentence, but for a share that differs between decoders."""
    draw = random.Random(f"{family} {decoder}")
    times = [seconds * (1 + draw.uniform(-noise, noise)) for _ in range(LONG)]
    return {"family": family, "decoder": decoder, "seconds_long": times, "tokens_long": [tokens] * LONG,
            **({"counterpart": counterpart} if counterpart else {})}


def findings(texts: dict[Name, list[str]] | None = None, contestants: tuple[dict[str, Any], ...] = (),
             analyses: dict[str, Any] | None = None, rows: tuple[Any, ...] = (),
             counts: dict[Name, Any] | None = None) -> dict[int, dict[str, Any]]:
    """The entries of all findings, by number."""
    resampled = Resampled([REFERENCES], "13a", 200)
    found = judge(rows, {name: resampled(lines) for name, lines in (texts or {}).items()}, counts or {},
                  resampled.times, {"baseline": "ar", "contestants": list(contestants)}, analyses or {})
    assert json.loads(json.dumps(found)) == found
    return {one["finding"]: one for one in found}


def judged(texts: dict[Name, list[str]] | None = None, contestants: tuple[dict[str, Any], ...] = (),
           analyses: dict[str, Any] | None = None, rows: tuple[Any, ...] = ()) -> dict[str, dict[str, Any]]:
    """All parts of the findings, by what they claim."""
    parts = [part for one in findings(texts, contestants, analyses, rows).values() for part in one["parts"]]
    assert len({part["claim"] for part in parts}) == len(parts)
    return {part["claim"]: part for part in parts}


BOTH = 2
AGAINST_L2R = "double_token beats double_token_l2r under pair_beam10"
AGAINST_R2L = "double_token beats double_token_r2l under pair_beam10"


def double_token(bidirectional: list[str], l2r: list[str], r2l: list[str] | None) -> dict[Name, list[str]]:
    texts = {"double_token": bidirectional, "double_token_l2r": l2r, "double_token_r2l": r2l}
    return {(family, "pair_beam10"): lines for family, lines in texts.items() if lines is not None}


def test_a_margin_is_the_difference_of_the_corpus_scores() -> None:
    rows = judged(double_token(garbled(0.1), garbled(0.3), garbled(0.2)))
    row = rows[AGAINST_L2R]
    better, worse = score(garbled(0.1), [REFERENCES]).bleu, score(garbled(0.3), [REFERENCES]).bleu
    margin, low, high = row["figures"]["estimate"]
    assert margin == pytest.approx(better - worse, abs=1e-4)
    assert row["figures"]["bleu"]["double_token pair_beam10"] == pytest.approx(better, abs=1e-4)
    assert 0 < low < better - worse < high
    assert f"margin {better - worse:.2f} (95 % interval {low:.2f} to {high:.2f})" in row["why"]
    assert "equal starts" in row["figures"]["note"]


@pytest.mark.parametrize(("l2r", "r2l", "verdicts"), [
    (garbled(0.5), garbled(0.6), ("true", "true", "true")),
    (garbled(0.5), garbled(0.02), ("true", "false", "false")),
    (garbled(0.5), garbled(0.2), ("true", "undecided", "undecided")),
    (garbled(0.02), garbled(0.2), ("false", "undecided", "false")),
    (garbled(0.5), None, ("true", "not measured", "not measured")),
    (garbled(0.02), None, ("false", "not measured", "false")),
])
def test_a_claim_is_true_if_all_its_comparisons_are(l2r: list[str], r2l: list[str] | None,
                                                      verdicts: tuple[str, ...]) -> None:
    found = findings(double_token(garbled(0.2), l2r, r2l))[BOTH]
    assert (*(part["verdict"] for part in found["parts"]), found["verdict"]) == verdicts
    assert [part["claim"] for part in found["parts"]] == [AGAINST_L2R, AGAINST_R2L]


def test_systems_that_differ_by_chance_are_undecided() -> None:
    rows = judged(double_token(garbled(0.3, seed=1), garbled(0.3, seed=2), garbled(0.3, seed=1)))
    figures = rows[AGAINST_L2R]["figures"]
    _, low, high = figures["estimate"]
    assert low < 0 < high
    assert rows[AGAINST_L2R]["verdict"] == "undecided"
    assert figures["sentences_to_decide"] > len(REFERENCES)


def test_a_rival_that_has_not_learnt_decides_nothing() -> None:
    texts = double_token(garbled(0.1), garbled(0.95), garbled(0.3)) | {("ar", "greedy"): garbled(0.1)}
    found = findings(texts)[BOTH]
    assert [part["verdict"] for part in found["parts"]] == ["not comparable", "true"]
    assert found["verdict"] == "not comparable"
    assert "not learnt" in found["parts"][0]["why"]


def test_equal_budgets_are_preferred_where_they_are_measured() -> None:
    ordinary = double_token(garbled(0.1), garbled(0.3), garbled(0.4))
    fair = {(f"{family}_raw", decoder): lines for (family, decoder), lines in
            double_token(garbled(0.4), garbled(0.1), garbled(0.1)).items()}
    assert findings(ordinary)[BOTH]["verdict"] == "true"
    assert findings(ordinary | fair)[BOTH]["verdict"] == "false"


@pytest.mark.parametrize(("side", "seconds", "verdict"), [("", 1.1, "true"), ("_raw", 1.1, "true"), ("", 2.0, "false")])
def test_more_candidates_must_cost_little(side: str, seconds: float, verdict: str) -> None:
    texts = {(f"lattice{side}", f"lattice{size}"): garbled(share)
             for size, share in ((32, 0.5), (64, 0.3), (128, 0.1))}
    timed = (contestant(f"lattice{side}", "lattice32", 1.0), contestant(f"lattice{side}", "lattice128", seconds))
    assert findings(texts, timed)[33]["verdict"] == verdict


def test_relaxed_acceptance_is_judged_on_drafts_of_one_length_where_they_are_measured() -> None:
    def drafts(family: str, exact: str, seconds: float, share: float) -> tuple[dict[Name, list[str]], Any]:
        careful, quick = f"{exact}++_quality", f"{exact}++_speed"
        return ({(family, careful): garbled(0.1), (family, quick): garbled(share)},
                (contestant(family, careful, 1.0), contestant(family, quick, seconds)))

    texts, timed = drafts("drafter", "gad", 0.5, 0.5)
    assert findings(texts, timed)[27]["verdict"] == "true"
    fairer, paced = drafts("drafter_1", "gad5", 2.0, 0.5)
    assert findings(texts | fairer, (*timed, *paced))[27]["verdict"] == "false"


@pytest.mark.parametrize(("deep", "shallow", "verdict"), [(0.2, 0.5, "true"), (0.4, 0.41, "false")])
def test_fewer_layers_must_cost_a_lattice_less(deep: float, shallow: float, verdict: str) -> None:
    lattices = {(f"lattice_{layers}", "lattice64"): garbled(share)
                for layers, share in ((6, 0.0), (3, 0.05), (1, 0.1))}
    nats = {(f"nat_{layers}", "nat"): garbled(share) for layers, share in ((6, deep), (3, deep), (1, shallow))}
    parts = findings(lattices | nats)[34]["parts"]
    assert [part["verdict"] for part in parts] == ["true", "true", "true", verdict, "true"]
    alone = {("lattice", "lattice64"): garbled(0.1), ("nat", "nat"): garbled(0.4)}
    assert findings(alone)[34]["verdict"] == "not measured"


@pytest.mark.parametrize(("number", "families", "better", "worse"), [
    (40, [f"interleaved_{words}_raw" for words in range(3, 7)], "beam4_deduplicated", "beam4"),
    (41, ["drafter"], "gad++_quality", "gad")])
@pytest.mark.parametrize(("share", "verdict"), [(0.4, "true"), (0.05, "false")])
def test_one_decoder_is_better_than_another(number: int, families: list[str], better: str, worse: str, share: float,
                                            verdict: str) -> None:
    texts = {(family, decoder): garbled(part) for family in families for decoder, part in (
        (better, 0.1), (worse, share))}
    assert findings(texts)[number]["verdict"] == verdict


def test_a_comparison_of_texts_of_those_that_learnt_nothing_decides_nothing() -> None:
    """Also where an analysis compares them."""
    repeated = {"sentences": 1000, "differences": {
        f"interleaved_{words}beam4 - {less}": {"difference": 1.0, "difference_low": 0.5, "difference_high": 1.5}
        for words, less in (("sa_raw ", "interleaved_raw beam4"), ("3_raw ", "interleaved_sa_raw beam4"))},
        **{f"{name}_raw beam4": {"otem": 1.0} for name in ("interleaved", "interleaved_sa", "interleaved_3")}}
    texts = {("ar", "greedy"): garbled(0.0), ("interleaved_raw", "beam4"): garbled(0.1),
             ("interleaved_sa_raw", "beam4"): garbled(0.1), ("interleaved_3_raw", "beam4"): garbled(0.9)}
    parts = findings(texts, analyses={"repetition": repeated})[20]["parts"]
    assert [part["verdict"] for part in parts] == ["true", "not comparable"]
    assert parts[1]["why"].endswith("so its task is not learnt: interleaved_3_raw.")


def test_missing_systems_are_named() -> None:
    rows = judged(double_token(garbled(0.2), garbled(0.3), None))
    assert rows[AGAINST_R2L]["why"] == "Not measured: double_token_r2l under pair_beam10."


def test_with_nothing_measured_nothing_is_decided() -> None:
    found = findings()
    assert found.keys() == FINDINGS.keys() and {one["verdict"] for one in found.values()} == {"not measured"}
    assert {tuple(one) for one in found.values()} == {("finding", "paper", "where", "statement", "revision", "verdict",
                                                        "parts")}
    parts = [part for one in found.values() for part in one["parts"]]
    assert all(one["parts"] for one in found.values())  # none is forgotten
    assert all(part["why"].startswith("Not measured: ") for part in parts)


def gap(ar_raw: float, raw: float, ar_distilled: float, distilled: float) -> dict[Name, list[str]]:
    shares = {"ar_raw": ar_raw, "interleaved_raw": raw,
              "ar_distilled": ar_distilled, "interleaved_distilled": distilled}
    return {(family, "beam4"): garbled(share) for family, share in shares.items()}


@pytest.mark.parametrize(("texts", "verdict"), [
    (gap(0.1, 0.5, 0.1, 0.15), "true"),
    (gap(0.1, 0.15, 0.1, 0.5), "false"),
    (gap(0.1, 0.5, 0.1, 0.5), "undecided"),
    (gap(0.5, 0.1, 0.5, 0.5), "not comparable"),  # without distillation, nothing is lost
])
def test_a_gap_narrows(texts: dict[Name, list[str]], verdict: str) -> None:
    of_others = {(family.replace("interleaved", "multi_directional"), decoder): lines
                 for (family, decoder), lines in texts.items()}
    rows = judged(texts | of_others)
    bleu = [score(lines, [REFERENCES]).bleu for lines in texts.values()]
    for much, family, left in (("more than 50% of", "interleaved", 0.5), ("a part of", "multi_directional", 1.0)):
        row = rows[f"Distillation takes away {much} the gap between ar and {family} under beam4"]
        margin = left * (bleu[0] - bleu[1]) - (bleu[2] - bleu[3])
        assert row["figures"]["estimate"][0] == pytest.approx(margin, abs=1e-4)
        if family != "interleaved":
            assert row["verdict"] == verdict


WORST = "middle_to_side_raw is worse than every other ablation"


@pytest.mark.parametrize(("middle", "verdict"), [(0.7, "true"), (0.4, "undecided"), (0.2, "false")])
def test_the_worst_is_worse_than_all_others(middle: float, verdict: str) -> None:
    shares = {"middle_to_side_raw": middle, "vanilla_mask_raw": 0.1, "vanilla_positions_raw": 0.4,
              "independent_directions_raw": 0.3}
    row = judged({(family, "beam4"): garbled(share) for family, share in shares.items()})[WORST]
    assert row["verdict"] == verdict
    bleu = {family: score(garbled(share), [REFERENCES]).bleu for family, share in shares.items()}
    least = min(value for family, value in bleu.items() if family != "middle_to_side_raw")
    assert row["figures"]["estimate"][0] == pytest.approx(least - bleu["middle_to_side_raw"], abs=1e-4)


FASTER = "double_token is faster than single-token decoding with as many beams"
SMALLER_BEAM = "A smaller beam raises the ratio"


@pytest.mark.parametrize(("wide", "narrow", "noise", "faster", "rises"), [
    (1.5, 1.8, 0.1, "true", "true"),
    (1.5, 1.3, 0.1, "true", "false"),
    (1.02, 1.05, 0.5, "undecided", "undecided"),
    (0.8, 0.9, 0.01, "false", "true"),
])
def test_trained_speeds_are_compared_sentence_by_sentence(wide: float, narrow: float, noise: float, faster: str,
                                                          rises: str) -> None:
    rows = judged(contestants=(contestant("ar", "beam10", 6.0, noise), contestant("ar", "greedy", 2.0, noise),
                               contestant("double_token", "pair_beam10", 6 / wide, noise, "beam10"),
                               contestant("double_token", "greedy", 2 / narrow, noise, "greedy")))
    assert (rows[FASTER]["verdict"], rows[SMALLER_BEAM]["verdict"]) == (faster, rises)
    ratio = rows[FASTER]["figures"]["estimate"]
    assert ratio[0] == pytest.approx(wide, rel=noise)
    assert "{:.2f} (95 % interval {:.2f} to {:.2f})".format(*ratio) in rows[FASTER]["why"]
    assert rows[FASTER]["figures"].get("sentences_to_decide") == (
        pytest.approx(sentences_to_decide(ratio[0] - 1, *ratio[1:], LONG), rel=0.05) if faster == "undecided" else None)


def test_sentences_that_decoders_share_do_not_blur_their_comparison() -> None:
    """Each is between 1 and 3 times as fast as greedy search, by the sentence; one always 5 % faster than the other."""
    draw = random.Random(3)
    slow = [draw.uniform(1, 3) for _ in range(LONG)]
    rows = judged(contestants=(contestant("ar", "pgj5", 1.0) | {"seconds_long": slow},
                               contestant("ar", "pgj3", 1.0) | {"seconds_long": [0.95 * one for one in slow]}))
    assert rows["pgj3 is faster than pgj5"]["verdict"] == "true"


@pytest.mark.parametrize(("contestants", "why"), [
    ((contestant("ar", "greedy", 1.0),), "double_token under pair_beam10."),
    ((contestant("ar", "greedy", 1.0), contestant("double_token", "pair_beam10", 1.0)),
     "a decoder of the baseline with as many beams as pair_beam10."),
    ((contestant("ar", "beam10", 1.0) | {"seconds_long": []},
      contestant("double_token", "pair_beam10", 1.0, counterpart="beam10") | {"seconds_long": []}), "long sentences."),
])
def test_what_a_clock_lacks_is_named(contestants: tuple[dict[str, Any], ...], why: str) -> None:
    assert judged(contestants=contestants)[FASTER]["why"] == f"Not measured: {why}"


def test_few_sentences_decide_nothing() -> None:
    few = tuple(contestant(*one) | {"seconds_long": [one[2]] * 7, "tokens_long": [9] * 7}
                for one in (("ar", "pgj3", 1.0), ("ar", "pgj5", 2.0), ("ar", "pj", 3.0)))
    found = judged(contestants=few)["pgj3 is faster than pgj5"]
    assert found["verdict"] == "undecided" and "Too few sentences, 7" in found["why"]


@pytest.mark.parametrize(("profile", "papers"), [("papers", {IMAMURA, ZHANG}), ("lattice", {DENG})])
def test_a_profile_and_full_measure_every_claim_of_its_papers(profile: str, papers: set[str]) -> None:
    runs = [parse_params(lay_over(read_yaml(ROOT / "params.yaml"), ROOT / f"presets/{name}.yaml"))
            for name in (profile, "full")]
    measured = {(family, decoder) for params in runs for family in params.systems
                for decoder in params.decoders_of(family)}
    wanted = {name for claim in CLAIMS if FINDINGS[claim.finding].paper in papers
              for one in claim.variants[0] for name in one.systems}
    assert wanted and wanted - measured == set()
    if IMAMURA in papers:
        assert {("double_token", "greedy"), ("double_token", "pair_beam10")} <= measured


def test_every_comparison_is_between_different_systems() -> None:
    assert all(len(set(one.systems)) == len(one.systems) for claim in CLAIMS for variant in claim.variants
               for one in variant)


def test_lost_hypotheses_are_refused() -> None:
    with pytest.raises(PipelineError, match="17 hypotheses for 18 references"):
        judged(double_token(REFERENCES, REFERENCES[:-1], None))


@pytest.mark.parametrize(("seconds", "verdicts"), [
    ({"pj": 9.0, "pgj3": 1.0, "pgj5": 1.2}, ("true", "true")),
    ({"pj": 9.0, "pgj3": 1.2, "pgj5": 1.0}, ("false", "true")),
    ({"pj": 1.21, "pgj3": 1.2}, ("not measured", "undecided")),
])
def test_speeds_of_one_pass_are_compared(seconds: dict[str, float], verdicts: tuple[str, str]) -> None:
    rows = judged(contestants=tuple(contestant("ar", name, one, 0.1) for name, one in seconds.items()))
    assert (rows["pgj3 is faster than pgj5"]["verdict"], rows["pgj3 is faster than pj"]["verdict"]) == verdicts


@pytest.mark.parametrize(("seconds", "noise", "alike"), [
    (1.03, 0.02, "true"), (1.3, 0.02, "false"), (0.7, 0.02, "false"), (1.1, 0.3, "undecided")])
def test_as_fast_is_within_a_tenth(seconds: float, noise: float, alike: str) -> None:
    rows = judged(contestants=(contestant("double_token", "pair_beam10", 1.0, noise),
                               contestant("double_token_l2r", "pair_beam10", seconds, noise)))
    assert rows["double_token_l2r is as fast as double_token"]["verdict"] == alike


@pytest.mark.parametrize(("tokens", "alike"), [(10, "false"), (8, "true")])
def test_a_shorter_translation_is_not_faster_by_its_length(tokens: int, alike: str) -> None:
    """Imamura and Sumita compare tokens per second."""
    rows = judged(contestants=(contestant("double_token", "pair_beam10", 1.0),
                               contestant("double_token_r2l", "pair_beam10", 0.8, tokens=tokens)))
    row = rows["double_token_r2l is as fast as double_token"]
    assert row["verdict"] == alike and row["figures"]["estimate"][0] == pytest.approx(tokens / 8)
    assert "over double_token pair_beam10, in tokens per second: " in row["why"]


def test_slower_and_faster_than_beam_search() -> None:
    rows = judged(contestants=(contestant("ar", "beam10", 1.0, 0.5), contestant("mask_predict", "mask_predict10", 2.0),
                               contestant("mask_predict", "mask_predict4", 1.0, 0.5)))
    slower = rows["mask_predict10 is slower than beam search"]
    assert slower["verdict"] == "true" and slower["why"].startswith("ar beam10 over mask_predict mask_predict10, in ")
    assert rows["mask_predict4 is faster than beam search"]["verdict"] == "undecided"


@pytest.mark.parametrize(("identical", "ties", "verdict"), [
    (1.0, 0, "true"), (0.5, len(REFERENCES) // 2, "true"), (0.5, len(REFERENCES) // 2 - 1, "false"),
    (1.0, None, "not measured")])
def test_exactness_is_counted(identical: float, ties: int | None, verdict: str) -> None:
    """Of every family: one that fails is not hidden by another."""
    row = SimpleNamespace(family="drafter", decoder="gad", identical_to_greedy=identical, ties=ties)
    exact = SimpleNamespace(family="drafter_raw", decoder="gad5", identical_to_greedy=1.0, ties=0)
    assert findings(rows=(row,))[25]["verdict"] == verdict
    assert findings(rows=(row, exact))[25]["verdict"] == ("true" if ties is None else verdict)


@pytest.mark.parametrize(("tokens", "verdict"), [(6.0, "true"), (4.0, "undecided"), (3.0, "false")])
def test_accepted_tokens_are_compared(tokens: float, verdict: str) -> None:
    """Of four tokens in two calls per sentence."""
    counts = {("drafter_raw", "gad5"): np.tile([4.0, 2.0], (len(REFERENCES), 1)),
              ("drafter_distilled", "gad5"): np.tile([tokens, 2.0], (len(REFERENCES), 1))}
    assert findings(counts=counts)[29]["verdict"] == verdict
    assert findings(counts=counts)[28]["verdict"] == "not measured"


@pytest.mark.parametrize(("deep", "verdict"), [(2.0, "true"), (0.5, "false")])
def test_a_shallow_student_is_faster_than_a_deep_one_and_than_a_shallow_ar(deep: float, verdict: str) -> None:
    rows = (contestant("ar", "beam4", 1.3), contestant("interleaved", "beam4", 1.0, counterpart="beam4"),
            contestant("interleaved_deep", "beam4", deep))
    assert findings(contestants=rows)[18]["verdict"] == verdict


def speedup(middle: float, margin: float = 0.05) -> dict[str, float]:
    return {"speedup": middle, "speedup_low": middle - margin, "speedup_high": middle + margin}


def pmi(middle: float) -> dict[str, float]:
    return {"pmi": middle, "pmi_low": middle - 0.06, "pmi_high": middle + 0.06}


def gain(middle: float) -> dict[str, float]:
    return {"recall": middle, "recall_low": middle - 0.02, "recall_high": middle + 0.02}


def with_edits(middle: float, margin: float) -> dict[str, float]:
    return Estimate(middle, middle - margin, middle + margin).named("correlation_with_edit_ratio")


DISTILLED = [(f"{name}_raw beam4", f"{name}_distilled beam4") for name in ("interleaved", "interleaved_sa")]
GROWING = [f"{name}_raw beam4" for name in ("interleaved", "interleaved_sa", "interleaved_3")]


def difference(low: float, high: float) -> dict[str, float]:
    return {"percent": 50.0, "difference": (low + high) / 2, "difference_low": low, "difference_high": high}


@pytest.mark.parametrize(("number", "analyses", "verdict"), [
    (7, {"ends": {"sentences": {"first 5": 90, "last 5": 90}, "double_token pair_beam10": {
        "counterpart": "ar beam10", "last 5": {"1-gram": difference(0.5, 1.5)},
        "first 5": {"4-gram": difference(-1.5, -0.5)}}}}, "true"),
    (7, {"ends": {"sentences": {"first 5": 90, "last 5": 90}, "double_token pair_beam10": {
        "counterpart": "ar beam10", "last 5": {"1-gram": difference(0.5, 1.5)},
        "first 5": {"4-gram": difference(0.5, 1.5)}}}}, "false"),
    (7, {"ends": {"not_measured": "no system"}}, "not measured"),
    *((19, {"source_length": {"timed_sentences": [timed, timed], "interleaved beam4": {
        "speedup": [1.1, 1.6], "speedup_low": [1.0, 1.5], "speedup_high": [1.2, 1.7],
        "longest_against_shortest": speedup(1.45)}}}, verdict) for timed, verdict in ((16, "true"), (6, "undecided"))),
    (19, {"source_length": {"timed_sentences": [16, 16], "interleaved beam4": {
        "speedup": [1.1, 1.2], "speedup_low": [1.0, 1.1], "speedup_high": [1.2, 1.3],
        "longest_against_shortest": speedup(1.09, 0.2)}}}, "undecided"),
    *((16, {"mutual_information": {"sentences": 90, "semi_autoregressive_raw": pmi(0.24), "interleaved_raw": pmi(ends),
        "differences": {"semi_autoregressive_raw - interleaved_raw": pmi(0.24 - ends)}}}, verdict)
      for ends, verdict in ((-0.01, "true"), (0.2, "undecided"), (-0.8, "not comparable"))),
    (16, {"mutual_information": {"interleaved_raw": pmi(-0.01)}}, "not measured"),
    *((20, {"repetition": {"sentences": 90, "interleaved beam4": {"otem": 1.2}, "interleaved_sa beam4": {"otem": 3.7},
                           "differences": {"interleaved_sa beam4 - interleaved beam4": difference(low, 3.0)}}}, verdict)
      for low, verdict in ((1.5, "true"), (-1.0, "undecided"))),
    (20, {"repetition": {"interleaved beam4": {"otem": 1.2}}}, "not measured"),
    *((20, {"repetition": {"sentences": 90, **{name: {"otem": 1.0} for name in GROWING}, "differences": {
        f"{GROWING[1]} - {GROWING[0]}": difference(1.0, 3.0), f"{GROWING[2]} - {GROWING[1]}": difference(low, 3.0)}}},
       verdict) for low, verdict in ((1.5, "true"), (-1.0, "undecided"))),
    *((22, {"training_time": {"baseline": "ar", "steps": 40, "interleaved": speedup(middle, 0.02)}}, verdict)
      for middle, verdict in ((0.97, "true"), (0.9, "undecided"), (0.82, "false"))),
    *((26, {"draft_acceptance": {
        "timed_sentences": 60, "exact": {f"block{k}": {
            "speedup_vs_beam5": gain, "speedup_low": gain - 0.3, "speedup_high": gain + 0.3}
            for k, gain in zip((first, 4, 12), gains, strict=True)},
        "block": learnt, "fastest": {"block": (first, 4, 12)[gains.index(max(gains))], "against": {
            f"block{k}": speedup(max(gains) / gain) for k, gain in zip((first, 4, 12), gains, strict=True)}}}}, verdict)
      for first, learnt, gains, verdict in (
          (1, 12, (2.0, 2.5, 1.5), "true"), (1, 12, (2.5, 2.0, 1.5), "false"), (2, 12, (2.5, 2.0, 1.5), "undecided"),
          (1, 12, (1.5, 2.0, 2.5), "undecided"), (1, 12, (2.4, 2.5, 1.5), "undecided"),
          (1, 12, (2.5, 2.4, 1.5), "undecided"), (1, 8, (2.0, 2.5, 1.5), "not measured"))),
    *((4, {"sizes": {"rounds": 8, "by_vocabulary": {"3000": speedup(1.1), "12000": speedup(larger)},
                     "largest_against_smallest": {"by_vocabulary": speedup(larger / 1.1)}}}, verdict)
      for larger, verdict in ((0.9, "true"), (1.08, "undecided"), (1.3, "false"))),
    (4, {"sizes": {"rounds": 8, "by_vocabulary": {"3000": speedup(1.1)}, "largest_against_smallest": {}}},
     "not measured"),
    *((39, {"agreement": {"sentences": {"0": 40, "8": 50, "apart": 50}, "subjects": 24, "predicates": 12,
                          f"interleaved{side}": {
                              "counterpart": "ar", "0": difference(-1.0, 1.0), "apart": difference(-9.0, long)},
                          f"interleaved_sa{side}": {
                              "counterpart": "ar", "0": difference(-20.0, -10.0), "apart": difference(1.0, 2.0)}}},
       verdict)
      for side in ("", "_raw") for long, verdict in ((-2.0, "true"), (3.0, "undecided"))),
    *((24, {"draft_speedup": {"sentences": 100, "ar": {"iad": with_edits(-0.5, half)}}}, verdict)
      for half, verdict in ((0.2, "true"), (0.6, "undecided"))),
    (24, {"draft_speedup": {"sentences": 100, "ar": {
        "iad": with_edits(-0.1, 0.2), "iad_whole": with_edits(-0.5, 0.2)}}}, "true"),
    (24, {"draft_speedup": {"sentences": 100, "ar": {"iad": {"edit_ratio": 0.0}}}}, "not measured"),
    *((35, {"recall": {"references": {"sentences": 90, "gain_over_shared": {
        "20": gain(0.2), "60": gain(other)}}}}, verdict)
      for other, verdict in ((0.1, "true"), (0.01, "undecided"), (-0.2, "false"))),
    (35, {"recall": {"references": {"gain_over_shared": {}}}}, "not measured"),
    (35, {"recall": {"references": {"sentences": 90, "gain_over_shared": {"20": gain(0.2)}},
                     "teacher": {"sentences": 90, "gain_over_shared": {"20": gain(-0.2)}}}}, "false"),
    *((21, {"repetition": {"sentences": 90, **{name: {"otem": 1.0} for pair in DISTILLED for name in pair},
                           "differences": {f"{GROWING[1]} - {GROWING[0]}": difference(1.0, 3.0), **{
                               " - ".join(pair): difference(low, 3.0)
                               for pair, low in zip(DISTILLED, lows, strict=True)}}}}, verdict)
      for lows, verdict in (((1.0, 1.0), "true"), ((1.0, -1.0), "undecided"))),
])
def test_what_analyses_found_is_judged(number: int, analyses: dict[str, Any], verdict: str) -> None:
    assert findings(analyses=analyses)[number]["verdict"] == verdict


def test_a_figure_that_should_be_low_is_reported_as_it_is() -> None:
    found = findings(analyses={"draft_speedup": {"sentences": 100, "ar": {"iad": with_edits(-0.5, 0.2)}}})[
        24]["parts"][0]
    value, low, high = found["figures"]["estimate"]
    assert low < value == -0.5 < high < 0 and found["verdict"] == "true"


@pytest.mark.parametrize(("share", "sentences", "verdict"), [(0.3, 90, "true"), (0.3, 6, "undecided"),
                                                             (0.015, 90, "undecided"), (0.002, 90, "false")])
def test_search_moves_a_share_of_the_words(share: float, sentences: int, verdict: str) -> None:
    found = Estimate(share, share - 0.006, share + 0.006).named("moved_share")
    parts = findings(analyses={"search_moves": {"sentences": sentences, **found}})[36]["parts"]
    assert parts[-1]["verdict"] == verdict


@pytest.mark.parametrize(("wide", "verdict"), [(1.4, "true"), (1.12, "undecided"), (0.8, "false")])
def test_a_gain_from_a_larger_model(wide: float, verdict: str) -> None:
    sizes = {"sizes": {"rounds": 8, "by_width": {"64": speedup(1.1), "1024": speedup(wide), "128": speedup(5.0)},
                       "largest_against_smallest": {"by_width": speedup(wide / 1.1)}}}
    rows = (contestant("ar", "beam10", 6.0), contestant("double_token", "pair_beam10", 5.0, counterpart="beam10"))
    assert findings(contestants=rows, analyses=sizes)[3]["verdict"] == verdict


@pytest.mark.parametrize(("more", "shared", "verdict"), [
    (1.2, True, "true"), (0.92, True, "undecided"), (0.6, True, "false"), (1.2, False, "not measured")])
def test_a_gain_from_cores(more: float, shared: bool, verdict: str) -> None:
    def over_greedy(middle: float) -> dict[str, float]:
        return {"speedup_vs_greedy": middle, "speedup_low": middle - 0.1, "speedup_high": middle + 0.1}

    quotient = Estimate(more / 0.9, more / 0.9 - 0.1, more / 0.9 + 0.1).named("speedup_vs_greedy")
    decoder = {"by_threads": {"1": over_greedy(0.9), "2": over_greedy(more)}, "most_against_fewest_threads": quotient}
    found = findings(analyses={"scaling": {"sentences": 30, "shares_products": shared, "decoders": {
        "pgj3": decoder, "hgj3": decoder}}})
    assert found[32]["verdict"] == verdict
