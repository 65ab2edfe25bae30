"""Findings that an analysis answers (`reports/analyses.json`)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pipeline.evaluation.bootstrap import Estimate
from pipeline.evaluation.claims.judgement import (
    FALSE,
    FEWEST,
    NOT_COMPARABLE,
    TRUE,
    UNDECIDED,
    Judgement,
    by_interval,
    compared,
    in_words,
    missing,
    of_equal_budgets,
    rounded,
    sentences_to_decide,
    with_learnt,
)

Metrics = Mapping[str, Any]
_DOUBLE_TOKEN = "double_token pair_beam10"
_NEARLY = 0.9
"""The least ratio of training speeds that is "nearly as fast"."""
_MOVED = 0.01
"""The least share of words that is a difference between search and the best edges."""


def judge_analyses(metrics: Metrics, baseline: str, unlearnt: Collection[str] = ()) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding.

    Args:
        metrics: of every analysis, by name.
        baseline: the family whose Jacobi decoders and drafts of the source are analysed.
        unlearnt: families that have not learnt their task, whose texts and probabilities decide nothing.
    """
    def raw(analysis: str, *names: str) -> Sequence[str]:
        return of_equal_budgets(metrics.get(analysis, {}), "raw", *names)

    double_token, = raw("ends", _DOUBLE_TOKEN)
    one_word, two_words = raw("agreement", "interleaved", "interleaved_sa")
    return [
        (3, _size(metrics, "A larger model raises the ratio", "by_width")),
        (4, _size(metrics, "A larger vocabulary lowers the ratio", "by_vocabulary", below=True)),
        *((7, with_learnt(part, [double_token.split()[0]], unlearnt)) for part in (
            _precision(metrics, double_token, "last 5", "1-gram"),
            _precision(metrics, double_token, "first 5", "4-gram", below=True))),
        (16, _information(metrics)),
        (19, _length(metrics, *raw("source_length", "interleaved beam4"))),
        *((20, part) for part in _growth(metrics, unlearnt)),
        *((21, _repetition(metrics, f"{family} repeats more if it learnt from raw data", f"{family}_raw beam4",
                           f"{family}_distilled beam4", unlearnt)) for family in ("interleaved", "interleaved_sa")),
        (22, _training(metrics)),
        (24, _edits(metrics, baseline)),
        (26, _peak(metrics)),
        *((32, _cores(metrics, decoder)) for decoder in ("pgj3", "hgj3")),
        *((35, part) for part in _recall(metrics)),
        (36, _moves(metrics)),
        *((39, with_learnt(_agreement(metrics, family, distance, where), [family], unlearnt))
          for family, distance, where in ((one_word, "apart", "apart from their subjects"),
                                          (two_words, "0", "beside their subjects"))),
    ]


def _size(metrics: Metrics, claim: str, what: str, *, below: bool = False) -> Judgement:
    """Whether the largest of some sizes has a greater ratio than the smallest, or a smaller one."""
    found = _find(metrics, "sizes", "largest_against_smallest", what)
    if found is None:
        return missing(claim, f"{_DOUBLE_TOKEN} at two sizes in `sizes`")
    metric = metrics["sizes"]
    ratios = {size: _estimate(metric[what][size], "speedup") for size in sorted(metric[what], key=int)}
    listed = ", ".join(f"{size}: {in_words(ratio)}" for size, ratio in ratios.items())
    estimate = _estimate(found, "speedup")
    return compared(claim, estimate, metric["rounds"],
                    f"On random weights, {listed}; the largest against the smallest: {in_words(estimate)}.",
                    {"ratios": {size: rounded(ratio) for size, ratio in ratios.items()}}, 1.0, below=below, of="rounds")


def _precision(metrics: Metrics, name: str, part: str, n: str, *, below: bool = False) -> Judgement:
    claim = f"{name.split()[0]}: {n}s of the {part} words are {'less' if below else 'more'} precise"
    found = _find(metrics, "ends", name, part, n)
    if found is None:
        return missing(claim, f"{name} in `ends`")
    estimate, metric = _estimate(found, "difference"), metrics["ends"]
    sentences = metric["sentences"][part]
    return compared(claim, estimate, sentences,
                    f"Against {metric[name]['counterpart']} on {sentences} sentences with two such ends, in "
                    f"points: {in_words(estimate)}.", {}, below=below)


def _information(metrics: Metrics) -> Judgement:
    claim = "Words of a step have less mutual information under interleaved_raw than under semi_autoregressive_raw"
    names = "semi_autoregressive_raw", "interleaved_raw"
    found = [_find(metrics, "mutual_information", name) for name in names]
    absent = [f"{name} in `mutual_information`" for name, one in zip(names, found, strict=True) if one is None]
    if absent:
        return missing(claim, *absent)
    neighbours, ends = (_estimate(one, "pmi") for one in found)
    metric = metrics["mutual_information"]
    difference = _estimate(metric["differences"][" - ".join(names)], "pmi")
    judgement = compared(claim, difference, metric["sentences"],
                         f"Nats per token: neighbours {in_words(neighbours)}, both ends {in_words(ends)}; difference "
                         f"{in_words(difference)}.",
                         {"pmi": {names[0]: rounded(neighbours), names[1]: rounded(ends)}})
    if min(neighbours.high, ends.high) < 0:
        # It predicts more from more: where it is decidedly worse, its training is what has been measured.
        return replace(judgement, verdict=NOT_COMPARABLE,
                       why=f"{judgement.why} The word-by-word counterpart is the less probable one: not learnt.")
    return judgement


def _length(metrics: Metrics, name: str) -> Judgement:
    claim = f"{name.split()[0]} gains more on the longest sources than on the shortest"
    found = _find(metrics, "source_length", name)
    if found is None:
        return missing(claim, f"{name} in `source_length`")
    timed = metrics["source_length"]["timed_sentences"]
    first, last = ([found[key][at] for key in ("speedup", "speedup_low", "speedup_high")] for at in (0, -1))
    estimate = _estimate(found["longest_against_shortest"], "speedup")
    return compared(claim, estimate, min(timed[0], timed[-1]),
                    f"Longest eighth: {in_words(last)} times as fast; shortest: {in_words(first)}; their quotient: "
                    f"{in_words(estimate)}.", {"longest": rounded(last), "shortest": rounded(first)}, 1.0,
                    of="sentences_per_eighth")


def _repetition(metrics: Metrics, claim: str, more: str, less: str, unlearnt: Collection[str]) -> Judgement:
    absent = [f"{name} in `repetition`" for name in (more, less) if _find(metrics, "repetition", name) is None]
    if absent:
        return missing(claim, *absent)
    metric = metrics["repetition"]
    difference = _estimate(metric["differences"][f"{more} - {less}"], "difference")
    figures = {name: metric[name]["otem"] for name in (more, less)}
    listed = ", ".join(f"{name} {figure:.2f}" for name, figure in figures.items())
    judgement = compared(claim, difference, metric["sentences"],
                         f"OTEM, %: {listed}; difference {in_words(difference)}.", {"otem": figures})
    return with_learnt(judgement, [name.split()[0] for name in (more, less)], unlearnt)


def _growth(metrics: Metrics, unlearnt: Collection[str]) -> list[Judgement]:
    """With every word more per direction and step that was measured, at least with the second."""
    names = of_equal_budgets(metrics.get("repetition", {}), "raw", "interleaved beam4", "interleaved_sa beam4")
    names = [*names, *(f"interleaved_{words}_raw beam4" for words in range(3, 7))]
    known = _find(metrics, "repetition", "differences") or {}
    return [_repetition(metrics, f"{words} words per direction repeat more than {words - 1}", more, less, unlearnt)
            for words, (less, more) in enumerate(pairwise(names), start=2) if words == 2 or f"{more} - {less}" in known]


def _training(metrics: Metrics) -> Judgement:
    claim = f"interleaved trains at least {_NEARLY} times as fast"
    found = _find(metrics, "training_time", "interleaved")
    if found is None:
        return missing(claim, "interleaved in `training_time`")
    estimate, metric = _estimate(found, "speedup"), metrics["training_time"]
    return compared(claim, estimate, metric["steps"],
                    f"Steps per second relative to {metric['baseline']} on the same batches: {in_words(estimate)}.", {},
                    _NEARLY, of="steps")


def _edits(metrics: Metrics, baseline: str) -> Judgement:
    """Of whole-source copies, the paper's, where a run has them."""
    found = _find(metrics, "draft_speedup", baseline) or {}
    decoder = "iad_whole" if "iad_whole" in found else "iad"
    claim = f"{decoder}: the gain on greedy search falls with the edit ratio"
    if _find(found, decoder, "correlation_with_edit_ratio") is None:
        return missing(claim, "a corrector whose edit ratios differ in `draft_speedup`")
    sentences = metrics["draft_speedup"]["sentences"]
    estimate = _estimate(found[decoder], "correlation_with_edit_ratio")
    return compared(claim, estimate, sentences,
                    f"Correlation over {sentences} sentences: {in_words(estimate)}.", {}, below=True)


def _peak(metrics: Metrics) -> Judgement:
    """Among the lengths that the drafter learnt; it was never trained to draft more tokens. No peak is one at a single
    token, of which there is no shorter draft; at another end of what was measured, the peak may be beyond it."""
    claim = "GAD's gain peaks at a draft that is neither the shortest nor the longest"
    found, fastest = (_find(metrics, "draft_acceptance", key) for key in ("exact", "fastest"))
    lengths = sorted(k for k in (int(name.removeprefix("block")) for name in found or ())
                     if k <= metrics["draft_acceptance"]["block"])
    if fastest is None or len(lengths) < 3:
        return missing(claim, "three lengths of drafts, up to the one that was learnt, in `draft_acceptance`")
    gains = {k: _estimate(found[f"block{k}"], "speedup_vs_beam5", "speedup") for k in lengths}
    best = lengths.index(fastest["block"])
    inside, shortest = 0 < best < len(lengths) - 1, best == 0 and lengths[0] == 1
    # A peak exceeds both ends; the gain at an end that exceeds its neighbour's rises towards it.
    others = [lengths[at] for at in ((0, -1) if inside else (1, -1) if best == 0 else (0, -2))]
    ahead = {k: _estimate(fastest["against"][f"block{k}"], "speedup") for k in dict.fromkeys(others)}
    timed = metrics["draft_acceptance"]["timed_sentences"]
    close = [one for one in ahead.values() if by_interval(one.low, one.high, 1.0) != TRUE]
    verdict = UNDECIDED if close or timed < FEWEST else TRUE if inside else FALSE if shortest else UNDECIDED
    figures: dict[str, Any] = {"speedup": {f"block{k}": rounded(one) for k, one in gains.items()}}
    if close and timed >= FEWEST:
        needed = [sentences_to_decide(one.value - 1, one.low, one.high, timed) for one in close]
        figures["sentences_to_decide"] = None if None in needed else max(filter(None, needed))
    listed = ", ".join(f"{k} drafted {in_words(gains[k])}" for k in dict.fromkeys(
        [lengths[0], lengths[best], lengths[-1]]))
    against = ", ".join(f"{k}: {in_words(one)}" for k, one in ahead.items())
    beyond = "" if inside or shortest else " The peak may be at a length that was not measured."
    return Judgement(claim, verdict, f"Times as fast as beam search: {listed}; the best against {against}.{beyond}",
                     figures)


def _cores(metrics: Metrics, decoder: str) -> Judgement:
    claim = f"{decoder} gains on greedy search from more cores"
    found = _find(metrics, "scaling", "decoders", decoder)
    if found is None or len(found["by_threads"]) < 2:
        return missing(claim, f"{decoder} on several cores in `scaling`")
    if not metrics["scaling"]["shares_products"]:
        return missing(claim, "a model so wide that compiled steps use more than one core")
    threads = sorted(found["by_threads"], key=int)
    one, all_cores = (_estimate(found["by_threads"][count], "speedup_vs_greedy", "speedup")
                      for count in (threads[0], threads[-1]))
    estimate = _estimate(found["most_against_fewest_threads"], "speedup_vs_greedy")
    return compared(claim, estimate, metrics["scaling"]["sentences"],
                    f"Times greedy search's speed on {threads[-1]} threads {in_words(all_cores)}, on {threads[0]} "
                    f"{in_words(one)}; their quotient: {in_words(estimate)}.",
                    {"speedup": {threads[-1]: rounded(all_cores), threads[0]: rounded(one)}}, 1.0)


def _recall(metrics: Metrics) -> list[Judgement]:
    """At every size that both were measured at: of the teacher's translations, as in the paper, if a run has them."""
    of = "teacher" if _find(metrics, "recall", "teacher") else "references"
    what = {"teacher": "teacher's translations", "references": "references"}[of]
    claim = f"Candidates by position recall more of the {what} than as many words shared by the sentence"
    found = _find(metrics, "recall", of, "gain_over_shared")
    if not found:
        return [missing(claim, "a lattice, and sizes of candidates that overlap, in `recall`")]
    gains = {words: _estimate(one, "recall") for words, one in found.items()}
    return [compared(f"{claim}: {words}", gain, metrics["recall"][of]["sentences"],
                     f"Difference of recall: {in_words(gain)}.", {}) for words, gain in gains.items()]


def _moves(metrics: Metrics) -> Judgement:
    claim = f"Search in the lattice chooses other words than the best edges, at least {_MOVED:.0%} of all"
    found = metrics.get("search_moves", {})
    if "moved_share" not in found:
        return missing(claim, "a lattice in `search_moves`")
    share = _estimate(found, "moved_share")
    return compared(claim, share, found["sentences"], f"Of all words: {in_words(share)}.", {}, _MOVED)


def _agreement(metrics: Metrics, family: str, distance: str, where: str) -> Judgement:
    """What a family loses against its counterpart at one distance, or at several."""
    claim = f"{family}: fewer verbs {where} agree with them"
    found = _find(metrics, "agreement", family)
    if found is None:
        return missing(claim, f"{family} in `agreement`")
    metric, estimate = metrics["agreement"], _estimate(found[distance], "difference")
    judgement = compared(claim, estimate, metric["predicates"],
                         f"Against {found['counterpart']} on {metric['sentences'][distance]} sentences of "
                         f"{metric['subjects']} subjects and {metric['predicates']} predicates, in points: "
                         f"{in_words(estimate)}.", {}, below=True)
    # More sentences need more words, which the grammar does not have.
    figures = {name: figure for name, figure in judgement.figures.items() if name != "sentences_to_decide"}
    return replace(judgement, figures=figures)


def _estimate(entry: Metrics, name: str, ends: str = "") -> Estimate:
    """A figure of a metrics file and its interval, whose ends have the name of the figure unless another is given."""
    ends = ends or name
    return Estimate(entry[name], entry[f"{ends}_low"], entry[f"{ends}_high"])


def _find(metrics: Metrics, *keys: str) -> Any:
    """The value under nested keys; None where one of them is absent."""
    found: Any = metrics
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found
