"""The papers' claims, on systems whose errors are scripted: every verdict, missing systems, summaries."""

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import PipelineError
from pipeline.evaluation.claims import CLAIMS, DENG, IMAMURA, ZHANG, judge
from pipeline.evaluation.quality import score
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


def contestant(family: str, decoder: str, ratio: list[float] | None) -> dict[str, Any]:
    return {"family": family, "decoder": decoder, "ratio_vs_ar_same_decoder": ratio}


def judged(texts: dict[Name, list[str]] | None = None, contestants: tuple[dict[str, Any], ...] = ()
           ) -> dict[str, dict[str, Any]]:
    rows = judge(texts or {}, [REFERENCES], {"contestants": list(contestants)}, "13a", 200)
    assert len({row["claim"] for row in rows}) == len(rows)
    return {row["claim"]: row for row in rows}


BOTH = "Bidirectional double-token decoding beats both unidirectional ones (default run)"
AGAINST_L2R = "double_token beats double_token_l2r under pair_beam10"
AGAINST_R2L = "double_token beats double_token_r2l under pair_beam10"


def double_token(bidirectional: list[str], l2r: list[str], r2l: list[str] | None) -> dict[Name, list[str]]:
    texts = {"double_token": bidirectional, "double_token_l2r": l2r, "double_token_r2l": r2l}
    return {(family, "pair_beam10"): lines for family, lines in texts.items() if lines is not None}


def test_a_margin_is_the_difference_of_the_corpus_scores() -> None:
    rows = judged(double_token(garbled(0.1), garbled(0.3), garbled(0.2)))
    row = rows[AGAINST_L2R]
    better, worse = score(garbled(0.1), [REFERENCES]).bleu, score(garbled(0.3), [REFERENCES]).bleu
    assert row["figures"]["margin"] == pytest.approx(better - worse, abs=1e-4)
    assert row["figures"]["bleu"]["double_token pair_beam10"] == pytest.approx(better, abs=1e-4)
    low, high = row["figures"]["interval"]
    assert 0 < low < better - worse < high
    assert f"margin {better - worse:.2f} (95 % interval {low:.2f} to {high:.2f})" in row["why"]
    assert "different weights" in row["figures"]["note"]


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
    rows = judged(double_token(garbled(0.2), l2r, r2l))
    assert tuple(rows[claim]["verdict"] for claim in (AGAINST_L2R, AGAINST_R2L, BOTH)) == verdicts
    assert rows[BOTH]["figures"]["comparisons"] == dict(zip((AGAINST_L2R, AGAINST_R2L), verdicts, strict=False))


def test_systems_that_differ_by_chance_are_undecided() -> None:
    rows = judged(double_token(garbled(0.3, seed=1), garbled(0.3, seed=2), garbled(0.3, seed=1)))
    low, high = rows[AGAINST_L2R]["figures"]["interval"]
    assert low < 0 < high
    assert rows[AGAINST_L2R]["verdict"] == "undecided"


def test_missing_systems_are_named_with_what_measures_them() -> None:
    rows = judged(double_token(garbled(0.2), garbled(0.3), None))
    assert "double_token_r2l under pair_beam10" in rows[AGAINST_R2L]["why"]
    assert "double_token under" not in rows[AGAINST_R2L]["why"]
    assert "the profiles `papers` and `lattice` measure" in rows[AGAINST_R2L]["why"]


def test_with_nothing_measured_nothing_is_decided() -> None:
    rows = judged()
    assert {row["verdict"] for row in rows.values()} == {"not measured"}
    assert all("`" in row["why"] or row["figures"]["comparisons"] for row in rows.values())
    assert json.loads(json.dumps(list(rows.values()))) == list(rows.values())
    assert {tuple(row) for row in rows.values()} == {("claim", "paper", "where", "verdict", "why", "figures")}
    assert {row["paper"] for row in rows.values()} == {IMAMURA, ZHANG, DENG}


def gap(ar_raw: float, raw: float, ar_distilled: float, distilled: float) -> dict[Name, list[str]]:
    shares = {"ar_raw": ar_raw, "interleaved_raw": raw,
              "ar_distilled": ar_distilled, "interleaved_distilled": distilled}
    return {(family, "beam4"): garbled(share) for family, share in shares.items()}


@pytest.mark.parametrize(("texts", "verdict"), [
    (gap(0.1, 0.5, 0.1, 0.15), "true"),
    (gap(0.1, 0.15, 0.1, 0.5), "false"),
    (gap(0.1, 0.5, 0.1, 0.5), "undecided"),
    (gap(0.5, 0.1, 0.5, 0.5), "false"),  # a student ahead of ar that falls back has a gap that widens
])
def test_a_gap_narrows(texts: dict[Name, list[str]], verdict: str) -> None:
    row = judged(texts)["Distillation narrows the gap between ar (beam4) and interleaved (beam4)"]
    assert row["verdict"] == verdict
    bleu = [score(lines, [REFERENCES]).bleu for lines in texts.values()]
    assert row["figures"]["margin"] == pytest.approx(bleu[0] - bleu[1] - bleu[2] + bleu[3], abs=1e-4)


WORST = "Middle-to-side is the worst ablation"


@pytest.mark.parametrize(("middle", "verdict"), [(0.7, "true"), (0.4, "undecided"), (0.2, "false")])
def test_the_worst_is_worse_than_all_others(middle: float, verdict: str) -> None:
    shares = {"middle_to_side_raw": middle, "vanilla_mask_raw": 0.1, "vanilla_positions_raw": 0.4,
              "independent_directions_raw": 0.3}
    row = judged({(family, "beam4"): garbled(share) for family, share in shares.items()})[WORST]
    assert row["verdict"] == verdict
    bleu = {family: score(garbled(share), [REFERENCES]).bleu for family, share in shares.items()}
    least = min(value for family, value in bleu.items() if family != "middle_to_side_raw")
    assert row["figures"]["margin"] == pytest.approx(least - bleu["middle_to_side_raw"], abs=1e-4)


FASTER = "Double-token decoding is faster than single-token decoding with as many beams"
SMALLER_BEAM = "A smaller beam raises the double-token speed ratio"


@pytest.mark.parametrize(("wide", "narrow", "faster", "rises"), [
    ([1.5, 1.4, 1.6], [1.8, 1.7, 1.9], "true", "true"),
    ([1.5, 1.4, 1.6], [1.3, 1.2, 1.35], "true", "false"),
    ([1.05, 0.9, 1.1], [1.15, 1.05, 1.2], "undecided", "undecided"),
    ([0.8, 0.7, 0.9], [1.1, 0.9, 1.2], "false", "undecided"),  # intervals that touch decide nothing
    (None, [1.1, 1.0, 1.2], "not measured", "not measured"),  # no sentence was long
])
def test_trained_speeds_are_compared_by_their_intervals(wide: list[float] | None, narrow: list[float], faster: str,
                                                        rises: str) -> None:
    rows = judged(contestants=(contestant("double_token", "pair_beam10", wide),
                               contestant("double_token", "greedy", narrow),
                               contestant("interleaved", "greedy", [9.0, 8.0, 9.9]),
                               {"family": "ar", "decoder": "greedy"}))
    assert (rows[FASTER]["verdict"], rows[SMALLER_BEAM]["verdict"]) == (faster, rises)
    if wide:
        assert rows[FASTER]["figures"] == {"ratios": {"double_token pair_beam10": wide}}
        assert "{:.2f} (95 % interval {:.2f} to {:.2f})".format(*wide) in rows[FASTER]["why"]


@pytest.mark.parametrize(("profile", "papers"), [("papers", {IMAMURA, ZHANG}), ("lattice", {DENG})])
def test_a_profile_measures_every_claim_of_its_papers(profile: str, papers: set[str]) -> None:
    params = parse_params(lay_over(read_yaml(ROOT / "params.yaml"), ROOT / f"presets/{profile}.yaml"))
    measured = {(family, decoder) for family in params.systems for decoder in params.decoders_of(family)}
    wanted = {name for claim in CLAIMS if claim.paper in papers
              for one in claim.comparisons for name in one.systems}
    assert wanted and wanted - measured == set()
    if IMAMURA in papers:
        assert {("double_token", "greedy"), ("double_token", "pair_beam10")} <= measured


def test_every_comparison_is_between_different_systems() -> None:
    assert all(len(set(one.systems)) == len(one.systems) for claim in CLAIMS for one in claim.comparisons)


def test_lost_hypotheses_are_refused() -> None:
    with pytest.raises(PipelineError, match="17 hypotheses for 18 references"):
        judged(double_token(REFERENCES, REFERENCES[:-1], None))
