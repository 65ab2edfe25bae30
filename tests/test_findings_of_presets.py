"""A run of a paper's preset can judge the findings that the preset repeats: findings know systems by their names."""

from collections.abc import Iterable
from itertools import permutations
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from test_presets import PAPERS, params_of

from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.interleaved.agreement import LANGUAGES
from pipeline.evaluation.analyses.interleaved.mutual_information import trained_alike
from pipeline.evaluation.analyses.interleaved.repetition import COMPARED
from pipeline.evaluation.analyses.jacobi.context import GREEDY, jacobi_decoders
from pipeline.evaluation.analyses.orders import open_context
from pipeline.evaluation.bootstrap import Estimate
from pipeline.evaluation.claims import judge
from pipeline.evaluation.claims.judgement import FEWEST, NOT_MEASURED
from pipeline.evaluation.resampled_bleu import Scores
from pipeline.evaluation.rows import Row
from pipeline.params import Params

REPEATED = {
    "wmt14_en_de_base": {9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 39},
    "gigaword": {9},
    "wmt14_en_de_big": {*range(1, 9)},
    "wmt14_en_de_double_token_base": {*range(1, 9)},
    "gec_en": {23, 24},
    "wikilarge": {23},
    "wmt14_en_de_aggressive": {25, 26, 27, 41},
    "jacobi": {30, 31, 32},
    "iwslt14_de_en": {33, 35, 36, 37},
    "wmt16_ro_en": {33, 36},
    "wmt14_en_de_lattice": {33, 36},
}
"""The findings whose tables and figures a preset repeats."""


@pytest.mark.parametrize("preset", REPEATED)
def test_a_run_judges_what_its_preset_repeats(preset: str) -> None:
    parts = {one["finding"]: one["parts"] for one in ledger(params_of(preset))}
    lacking = {number: [part["why"] for part in parts[number] if part["verdict"] == NOT_MEASURED]
               for number in REPEATED[preset]}
    assert {number: why for number, why in lacking.items() if why} == {}
    assert all(parts[number] for number in REPEATED[preset])


def test_every_paper_s_preset_repeats_findings() -> None:
    assert PAPERS.keys() <= REPEATED.keys()


def test_a_finding_whose_systems_a_preset_lacks_is_not_measured() -> None:
    verdicts = {one["finding"]: one["verdict"] for one in ledger(params_of("gec_en"))}
    assert {number for number, verdict in verdicts.items() if verdict != NOT_MEASURED} == {23, 24}


def ledger(params: Params) -> list[dict[str, Any]]:
    """What is judged of a run whose systems are all as good and as fast as each other."""
    names = [(family, decoder) for family in params.systems for decoder in params.decoders_of(family)]
    rows = [SimpleNamespace(family=family, decoder=decoder, identical_to_greedy=1.0, ties=0)
            for family, decoder in names]
    counterparts = params.counterparts()
    timed = [{"family": family, "decoder": decoder, "seconds_long": [1.0] * FEWEST,
              "tokens_long": [9] * FEWEST}
             | ({"counterpart": counterparts[decoder]} if decoder in counterparts else {}) for family, decoder in names]
    return judge(cast(list[Row], rows), dict.fromkeys(names, Scores(30.0, np.full(20, 30.0))),
                 dict.fromkeys(names, np.ones((FEWEST, 2))), np.ones((20, FEWEST)),
                 {"baseline": params.baseline, "contestants": timed}, analyses(params))


def analyses(params: Params) -> dict[str, Any]:
    """What the analyses write that such a run makes, as far as findings read it."""
    found, drafting = of_orders(params), params.analyses.drafting
    times = {**named("speedup"), "speedup_vs_greedy": 1.0}
    found["scaling"] = {"sentences": FEWEST, "shares_products": True, "decoders": each(
        (GREEDY, *jacobi_decoders(params)), {"by_threads": each("12", times),
                                             "most_against_fewest_threads": named("speedup_vs_greedy")})}
    if "double_token" in params.systems:
        ratios = each(("by_width", "by_vocabulary"), named("speedup"))
        found["sizes"] = {"rounds": FEWEST, "largest_against_smallest": ratios,
                          **{what: {"8": ratio} for what, ratio in ratios.items()}}
    if params.corpus.source_language == params.corpus.target_language:
        found["draft_speedup"] = {"sentences": FEWEST} | {
            family: each(decoders, named("correlation_with_edit_ratio"))
            for family, decoders in drafting.decoders.items() if family in params.systems}
    if drafting.drafter in params.systems:
        blocks = each([f"block{k}" for k in drafting.blocks], {**named("speedup"), "speedup_vs_beam5": 1.0})
        found["draft_acceptance"] = {"timed_sentences": FEWEST, "block": max(drafting.blocks), "exact": blocks,
                                     "fastest": {"block": drafting.blocks[0], "against": blocks}}
    if params.analyses.lattice in params.systems:
        found["recall"] = {"references": {"sentences": FEWEST, "gain_over_shared": {"9": named("recall")}}}
        found["search_moves"] = {"sentences": FEWEST, **named("moved_share")}
    return found


def of_orders(params: Params) -> dict[str, Any]:
    """Those of generation orders."""
    context = open_context(cast(FinishedRun, SimpleNamespace(params=params)))
    if not context.rivals:
        return {}
    rivals, families = [" ".join(one.name) for one in context.rivals], [one.family for one in context.rivals]
    alike = {one.family for one in trained_alike(params)}
    apart = {**named("difference"), "counterpart": params.baseline}
    found = {
        "ends": {"sentences": each(("first 5", "last 5"), FEWEST), **each(rivals, {
            "counterpart": params.baseline, **each(("first 5", "last 5"), each(("1-gram", "4-gram"), apart))})},
        "repetition": {"sentences": FEWEST, **each(rivals, {"otem": 1.0}), "differences": each(
            [f"{more} - {less}" for more, less in COMPARED if {more, less} <= {*rivals}], apart)},
        "source_length": {"timed_sentences": [FEWEST] * 2, **each(rivals, {
            "longest_against_shortest": named("speedup"),
            **{figure: [value] * 2 for figure, value in named("speedup").items()}})},
        "training_time": {"steps": FEWEST, "baseline": params.baseline,
                          **each(context.different(), named("speedup"))},
        "mutual_information": {"sentences": FEWEST, **each(alike, named("pmi")), "differences": each(
            [f"{one} - {other}" for one, other in permutations(alike, 2)], named("pmi"))}}
    if (params.corpus.source_language, params.corpus.target_language) == LANGUAGES:
        found["agreement"] = {"subjects": 1, "predicates": FEWEST, "sentences": each(("0", "apart"), FEWEST), **each(
            families, {"counterpart": params.baseline, **each(("0", "apart"), apart)})}
    return found


def named(figure: str) -> dict[str, float]:
    """A figure with its interval."""
    return Estimate(1.0, 0.5, 1.5).named(figure)


def each(names: Iterable[str], value: Any) -> dict[str, Any]:
    """The same value under several names."""
    return dict.fromkeys(names, value)
