"""Findings that an analysis answers (`reports/analyses.json`)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.evaluation.claims.judgement import (
    FALSE,
    NOT_COMPARABLE,
    TRUE,
    UNDECIDED,
    Judgement,
    by_interval,
    by_two_intervals,
    in_words,
    missing,
    rounded,
)

Metrics = Mapping[str, Any]
_DOUBLE_TOKEN, _INTERLEAVED = "double_token pair_beam10", "interleaved beam4"
_INTERVAL = ("difference", "difference_low", "difference_high")
_NEARLY = 0.9
"""The least ratio of training speeds that is "nearly as fast"."""
_NEAR = 0.01
"""A difference of recall that decides nothing."""


def judge_analyses(metrics: Metrics, baseline: str) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding.

    Args:
        metrics: of every analysis, by name.
        baseline: the family whose Jacobi decoders and drafts of the source are analysed.
    """
    return [
        (3, _size(metrics, "A larger model raises the ratio", "by_width", 1)),
        (4, _size(metrics, "A larger vocabulary lowers the ratio", "by_vocabulary", -1)),
        (7, _precision(metrics, "last 5", "1-gram", 1)),
        (7, _precision(metrics, "first 5", "4-gram", -1)),
        (16, _information(metrics)),
        (19, _length(metrics)),
        (20, _repetition(metrics, "Two words per direction repeat more than one", *_of_equal_budgets(
            metrics, "interleaved_sa", "interleaved"))),
        (21, _repetition(metrics, "Students of raw data repeat more than students of distilled data",
                         "interleaved_raw beam4", "interleaved_distilled beam4")),
        (22, _training(metrics)),
        (24, _edits(metrics, baseline)),
        (26, _peak(metrics)),
        *((32, _cores(metrics, decoder)) for decoder in ("pgj3", "hgj3")),
        (35, _recall(metrics)),
        (36, _moves(metrics)),
        (39, _agreement(metrics, "interleaved", -1)),
        (39, _agreement(metrics, "interleaved_sa", 0)),
    ]


def _of_equal_budgets(metrics: Metrics, *families: str) -> list[str]:
    """Families of raw data under beam search, which have equal budgets, or the run's ordinary ones."""
    raw = [f"{family}_raw beam4" for family in families]
    return raw if {*raw} <= metrics.get("repetition", {}).keys() else [f"{family} beam4" for family in families]


def _size(metrics: Metrics, claim: str, what: str, sign: int) -> Judgement:
    """Whether the largest of some sizes has a greater ratio than the smallest (sign 1), or a smaller one (-1)."""
    found = _find(metrics, "sizes", what)
    if found is None:
        return missing(claim, f"{_DOUBLE_TOKEN} in `sizes`")
    smallest, *_, largest = sorted(found, key=int)
    ratios = {size: _speedup(found[size]) for size in (smallest, largest)}
    greater, less = (ratios[size] for size in (largest, smallest)[::sign])
    return Judgement(claim, by_two_intervals(greater, less),
                     f"On random weights, {', '.join(f'{size}: {in_words(ratio)}' for size, ratio in ratios.items())}.",
                     {"ratios": {size: rounded(ratio) for size, ratio in ratios.items()}})


def _precision(metrics: Metrics, part: str, n: str, sign: int) -> Judgement:
    claim = f"double_token: {n}s of the {part} words are {'more' if sign > 0 else 'less'} precise"
    found = _find(metrics, "ends", _DOUBLE_TOKEN, part, n)
    if found is None:
        return missing(claim, f"{_DOUBLE_TOKEN} in `ends`")
    figure = [found[key] for key in _INTERVAL]
    low, high = sorted(sign * value for value in figure[1:])
    metric = metrics["ends"]
    return Judgement(claim, by_interval(low, high),
                     f"Against {metric[_DOUBLE_TOKEN]['counterpart']} on {metric['sentences']} long sentences, in "
                     f"points: {in_words(figure)}.", {"points": rounded(figure)})


def _information(metrics: Metrics) -> Judgement:
    claim = "Words of a step have less mutual information under interleaved_raw than under semi_autoregressive_raw"
    names = "semi_autoregressive_raw", "interleaved_raw"
    found = [_find(metrics, "mutual_information", name) for name in names]
    absent = [f"{name} in `mutual_information`" for name, one in zip(names, found, strict=True) if one is None]
    if absent:
        return missing(claim, *absent)
    neighbours, ends = ([one[key] for key in ("pmi", "pmi_low", "pmi_high")] for one in found)
    verdict, why = by_two_intervals(neighbours, ends), (
        f"Nats per token: neighbours {in_words(neighbours)}, both ends {in_words(ends)}.")
    if min(neighbours[2], ends[2]) < 0:
        # It predicts more from more: where it is decidedly worse, its training is what has been measured.
        verdict, why = NOT_COMPARABLE, f"{why} The word-by-word counterpart is the less probable one: not learnt."
    return Judgement(claim, verdict, why, {"pmi": {names[0]: rounded(neighbours), names[1]: rounded(ends)}})


def _length(metrics: Metrics) -> Judgement:
    claim = "interleaved gains more on the longest sources than on the shortest"
    found = _find(metrics, "source_length", _INTERLEAVED)
    if found is None:
        return missing(claim, f"{_INTERLEAVED} in `source_length`")
    first, last = ([bound[at] for bound in _speedup(found)] for at in (0, -1))
    return Judgement(claim, by_two_intervals(last, first),
                     f"Longest eighth: {in_words(last)} times as fast; shortest: {in_words(first)}.",
                     {"longest": rounded(last), "shortest": rounded(first)})


def _repetition(metrics: Metrics, claim: str, more: str, less: str) -> Judgement:
    found = [_find(metrics, "repetition", name, "1-gram") for name in (more, less)]
    absent = [f"{name} in `repetition`" for name, one in zip((more, less), found, strict=True) if one is None]
    if absent:
        return missing(claim, *absent)
    larger, smaller = ([one[key] for key in _INTERVAL] for one in found)
    return Judgement(claim, by_two_intervals(larger, smaller),
                     f"Repeated words beyond those of the baseline, in points: {more} {in_words(larger)}, {less} "
                     f"{in_words(smaller)}.", {"points": {more: rounded(larger), less: rounded(smaller)}})


def _training(metrics: Metrics) -> Judgement:
    claim = f"interleaved trains at least {_NEARLY} times as fast"
    found = _find(metrics, "training_time", "interleaved")
    if found is None:
        return missing(claim, "interleaved in `training_time`")
    figure = _speedup(found)
    return Judgement(claim, by_interval(figure[1], figure[2], _NEARLY),
                     f"Steps per second relative to {metrics['training_time']['baseline']} on the same batches: "
                     f"{in_words(figure)}.", {"ratio": rounded(figure)})


def _edits(metrics: Metrics, baseline: str) -> Judgement:
    """Of whole-source copies, the paper's, where a run has them."""
    found = _find(metrics, "draft_speedup", baseline) or {}
    decoder = "iad_whole" if "iad_whole" in found else "iad"
    claim = f"{decoder}: the gain falls with the edit ratio"
    correlation = _find(found, decoder, "correlation_with_edit_ratio")
    if correlation is None:
        return missing(claim, "the edit ratio of a corrector in `draft_speedup`")
    sentences = metrics["draft_speedup"]["sentences"]
    figure = [correlation, *correlation_interval(correlation, sentences)]
    return Judgement(claim, by_interval(-figure[2], -figure[1]),
                     f"Correlation over {sentences} sentences: {in_words(figure)}.", {"correlation": rounded(figure)})


def _peak(metrics: Metrics) -> Judgement:
    claim = "GAD's gain peaks at a draft that is neither the shortest nor the longest"
    found = _find(metrics, "draft_acceptance", "exact")
    if found is None or len(found) < 3:
        return missing(claim, "three lengths of drafts in `draft_acceptance`")
    lengths = sorted(found, key=lambda name: int(name.removeprefix("block")))
    figures = {name: _speedup(found[name], "speedup_vs_beam5") for name in lengths}
    best = max(range(len(lengths)), key=lambda at: figures[lengths[at]][0])
    inside = 0 < best < len(lengths) - 1
    # A peak exceeds both ends; the gain at an end that exceeds its neighbour's rises towards it.
    others = (0, -1) if inside else (1, -1) if best == 0 else (0, -2)
    above = {by_two_intervals(figures[lengths[best]], figures[lengths[other]]) for other in others}
    verdict = UNDECIDED if UNDECIDED in above else TRUE if inside else FALSE
    shown = dict.fromkeys([lengths[0], lengths[best], lengths[-1]])
    listed = ", ".join(f"{name.removeprefix('block')} drafted {in_words(figures[name])}" for name in shown)
    return Judgement(claim, verdict, f"Times as fast as beam search: {listed}.",
                     {"speedup": {name: rounded(one) for name, one in figures.items()}})


def correlation_interval(correlation: float, sentences: int) -> tuple[float, float]:
    """The 95 % interval of a correlation, by Fisher's transformation.

    >>> low, high = correlation_interval(-0.5, 28)
    >>> round(low, 2), round(high, 2)
    (-0.74, -0.16)
    """
    middle, half = math.atanh(max(-0.9999, min(0.9999, correlation))), 1.96 / math.sqrt(max(sentences - 3, 1))
    return math.tanh(middle - half), math.tanh(middle + half)


def _cores(metrics: Metrics, decoder: str) -> Judgement:
    claim = f"{decoder} gains on greedy search from more cores"
    found = _find(metrics, "scaling", "decoders", decoder, "by_threads")
    if found is None or len(found) < 2:
        return missing(claim, f"{decoder} on several cores in `scaling`")
    threads = sorted(found, key=int)
    one, all_cores = (_speedup(found[count], "speedup_vs_greedy") for count in (threads[0], threads[-1]))
    return Judgement(claim, by_two_intervals(all_cores, one),
                     f"Times greedy search's speed on {threads[-1]} threads {in_words(all_cores)}, on {threads[0]} "
                     f"{in_words(one)}.", {"speedup": {threads[-1]: rounded(all_cores), threads[0]: rounded(one)}})


def _recall(metrics: Metrics) -> Judgement:
    claim = "Candidates by position recall more of the references than as many words shared by the sentence"
    mine, theirs = (_find(metrics, "recall", "references", method) for method in ("position_aware", "shared"))
    if mine is None or theirs is None:
        return missing(claim, "a lattice in `recall`")
    words, recall, shared_words, shared_recall = (
        np.array(list(one[what].values())) for one in (mine, theirs) for what in ("words", "recall"))
    within = (words >= shared_words[0]) & (words <= shared_words[-1])
    if not within.any():
        return missing(claim, "sizes of candidates that overlap in `recall`")
    gains = recall[within] - np.interp(np.log(words[within]), np.log(shared_words), shared_recall)
    verdict = TRUE if gains.min() > _NEAR else FALSE if gains.max() < -_NEAR else UNDECIDED
    listed = ", ".join(f"{gain:+.3f} with {count:.0f} words" for gain, count in zip(gains, words[within], strict=True))
    return Judgement(claim, verdict, f"Difference of recall: {listed}.",
                     {"gain": {f"{count:.0f}": round(float(gain), 4)
                               for gain, count in zip(gains, words[within], strict=True)}})


def _moves(metrics: Metrics) -> Judgement:
    claim = "Search in the lattice chooses other words than the best edges"
    share = _find(metrics, "search_moves", "moved_share")
    if share is None:
        return missing(claim, "a lattice in `search_moves`")
    return Judgement(claim, TRUE if share > 0 else FALSE, f"Of all words, {share:.1%}.", {"moved_share": share})


def _agreement(metrics: Metrics, family: str, at: int) -> Judgement:
    """What a family loses against the baseline at one of the distances, from the shortest to the longest."""
    claim = f"{family}: fewer verbs agree with their subject at the {'longest' if at else 'shortest'} distance"
    found = _find(metrics, "agreement", family)
    if found is None:
        return missing(claim, f"{family} in `agreement`")
    distance = sorted(found, key=int)[at]
    figure = [found[distance][key] for key in _INTERVAL]
    return Judgement(claim, by_interval(-figure[2], -figure[1]),
                     f"Against {metrics['agreement']['baseline']} with {distance} words between them, in points: "
                     f"{in_words(figure)}.", {"points": rounded(figure)})


def _speedup(entry: Metrics, ratio: str = "speedup") -> list[Any]:
    """A ratio of speeds and the ends of its interval, numbers or lists of them."""
    return [entry[key] for key in (ratio, "speedup_low", "speedup_high")]


def _find(metrics: Metrics, *keys: str) -> Any:
    """The value under nested keys; None where one of them is absent."""
    found: Any = metrics
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found
