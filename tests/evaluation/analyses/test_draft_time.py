"""Time of drafts and verifications: single sentences and parts, on clocks that only the models move."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from drafters import drafter
from hypothesis import given
from hypothesis import strategies as st
from sentences import sources
from torch import Tensor

from pipeline.decoding import gad
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.evaluation.analyses.drafting.draft_breakdown import MEASURED, METHODS, PARTS, draft_breakdown
from pipeline.evaluation.analyses.drafting.draft_speedup import draft_speedup, edit_distance, tokens_and_calls
from pipeline.evaluation.analyses.parts import Stopwatch, Watched, WatchedSearch, time_parts
from pipeline.evaluation.speed import Contestant
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

CPU = torch.device("cpu")
LIMIT = LengthLimit(ratio=2.0, extra=5, longest=20)


def hypotheses(lengths: list[int], calls: list[int], ended: bool = True) -> Hypotheses:
    ones = torch.ones(len(lengths), 1)
    return Hypotheses(torch.full((len(lengths), 1, max(lengths)), 7), torch.tensor(lengths).unsqueeze(1), ones,
                      ones.bool() if ended else ~ones.bool(), torch.tensor(calls))


@dataclass
class Clocked:
    """Models and a search that move a clock by different powers of ten."""

    now: float = 0.0
    kind: str = "drafter"

    @property
    def verifier(self) -> "Clocked":
        return self

    def take(self, seconds: float) -> None:
        self.now += seconds

    encode = draft_memory = start = propose = draft_tokens = continue_greedily = step = take

    def search(self, model: Any, pace: float) -> Hypotheses:
        """As `gad.search` asks a drafter and its verifier."""
        model.verifier.encode(pace)
        model.draft_memory(10 * pace)
        model.verifier.start(100 * pace)
        model.start(1000 * pace)
        for _ in range(2):
            model.propose(2000 * pace)
            model.draft_tokens(3000 * pace)
            model.verifier.step(300 * pace)
        self.now += 100_000 * pace
        return hypotheses([3], [2])


def test_every_part_gets_its_own_time() -> None:
    clocked = Clocked()

    def search(pace: float) -> WatchedSearch:
        watch = Stopwatch(MEASURED, CPU, lambda: clocked.now)
        model = Watched(clocked, watch, METHODS, Watched(clocked, watch, {
            "encode": "verifier_encoder", "start": "verifier", "step": "verifier"}))
        assert model.kind == "drafter"
        return WatchedSearch(lambda source: clocked.search(model, pace), watch)

    seconds = time_parts([search(1.0), search(3.0)], [torch.ones(1, 2)] * 2, 3, 1)
    once = np.array([1, 10, 11_000, 700, 100_000])
    assert seconds == pytest.approx(np.array([[once] * 2, [3 * once] * 2]))


def test_the_parts_of_a_real_search_add_up(tiny: Callable[..., Transformer]) -> None:
    model = drafter(tiny())
    batch = sources(3, 9, 6)
    singles = [row[row != PAD].unsqueeze(0) for row in batch]
    searches = {("drafter", name): (model, lambda model, source, k=k: gad.search(model, source, LIMIT, gad.Settings(k)))
                for name, k in (("gad", 0), ("gad2", 2))}
    finding = draft_breakdown(searches, singles, repetitions=1, warmup=1, device=CPU)
    for found in finding.metric["drafter"].values():
        assert all(found[f"{part}_milliseconds"] > 0 for part in PARTS)
        assert sum(found[f"{part}_milliseconds"] for part in PARTS) == pytest.approx(found["milliseconds"])
        assert sum(found[f"{part}_share"] for part in PARTS) == pytest.approx(1)
        assert found["others_over_steps"] == pytest.approx(
            found["others_milliseconds"] / (found["drafter_milliseconds"] + found["verifier_milliseconds"]))


def test_every_call_of_one_sentence_is_seen(tiny: Callable[..., Transformer]) -> None:
    model, ticks = drafter(tiny()), itertools.count()
    watch = Stopwatch(MEASURED, CPU, lambda: float(next(ticks)))
    verifier = Watched(model.verifier, watch, {"start": "verifier", "step": "verifier"})
    found = gad.search(Watched(model, watch, METHODS, verifier), sources(7), LIMIT)  # type: ignore[arg-type]
    assert watch.seconds["verifier"] == 1 + int(found.calls)


def test_a_stopwatch_changes_no_translation(tiny: Callable[..., Transformer]) -> None:
    model, source = drafter(tiny()), sources(5, 2, 7)
    watch = Stopwatch(MEASURED, CPU)
    watched = Watched(model, watch, METHODS)
    assert torch.equal(gad.search(watched, source, LIMIT).tokens, gad.search(model, source, LIMIT).tokens)  # type: ignore[arg-type]


words = st.lists(st.sampled_from("abc"), max_size=6)


@given(words, words)
def test_edit_distance_against_its_definition(source: list[str], target: list[str]) -> None:
    def fewest(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(fewest(i - 1, j) + 1, fewest(i, j - 1) + 1,
                   fewest(i - 1, j - 1) + (source[i - 1] != target[j - 1]))

    assert edit_distance(source, target) == fewest(len(source), len(target)) == edit_distance(target, source)


def test_tokens_count_end_symbols() -> None:
    assert tokens_and_calls(hypotheses([5], [2])) == (6, 2)
    assert tokens_and_calls(hypotheses([5], [2], ended=False)) == (5, 2)


@pytest.mark.parametrize("corrects", [True, False])
def test_sentences_are_set_against_edits_or_accepted_tokens(corrects: bool) -> None:
    def translate(source: Tensor) -> Hypotheses:
        return hypotheses([4], [source.shape[1]])

    sentences = [torch.ones(1, length) for length in (1, 2, 5)]
    finding = draft_speedup(Contestant("ar", "beam5", translate), [Contestant("drafter", "gad", translate)], sentences,
                            edit_ratio=(lambda row, found: row / 2) if corrects else None, repetitions=1, warmup=1,
                            device=CPU)
    drawn = finding.figure.axes[1].lines[0]
    assert list(drawn.get_xdata()) == ([0, 0.5, 1] if corrects else [5, 2.5, 1])
    found = finding.metric["drafter"]["gad"]
    assert found["accepted_per_call"] == 15 / 8  # tokens of all sentences over calls of all
    assert found["sentence_minimum"] <= found["sentence_median"] <= found["sentence_maximum"]
    assert found["sentence_maximum"] == max(drawn.get_ydata())
    assert found["speedup_low"] <= found["speedup"] <= found["speedup_high"]
    assert ("edit_ratio" in found) is corrects
