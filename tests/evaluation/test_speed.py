"""The clock, with a scripted one in its place, and the statistics, against numbers worked out by hand."""

import gc
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.errors import PipelineError
from pipeline.evaluation.bootstrap import speed_ratio
from pipeline.evaluation.speed import Contestant, Timings, make_batches, measure, speed_report, turns
from pipeline.vocabulary import PAD

CPU = torch.device("cpu")


@dataclass
class Stage:
    """A clock that only contestants move, and a log of who translated what (the first id of the batch)."""

    now: float = 0.0
    log: list[tuple[str, int]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def contestant(self, name: str, *seconds: float) -> Contestant:
        """Takes the given seconds one after the other, then always the last; writes 3 words in 4 calls."""
        script = list(seconds)

        def translate(source: Tensor) -> Hypotheses:
            assert torch.is_inference_mode_enabled()
            self.log.append((name, int(source[0, 0])))
            self.now += script.pop(0) if len(script) > 1 else script[0]
            B = len(source)
            return Hypotheses(tokens=torch.zeros(B, 1, 3, dtype=torch.long), lengths=torch.full((B, 1), 3),
                              scored=torch.zeros(B, 1), ended=torch.ones(B, 1, dtype=torch.bool),
                              calls=torch.full((B,), 4))

        return Contestant(name, "greedy", translate)


def sentences(*lengths: int) -> list[Tensor]:
    """One sentence per length; sentence i consists of the id 100 + i."""
    return [torch.full((1, length), 100 + index) for index, length in enumerate(lengths)]


def test_everyone_has_a_sentence_before_the_next_one_comes() -> None:
    stage = Stage()
    measure([stage.contestant(name, 1) for name in "abc"], {1: sentences(5, 9, 2, 7, 1, 3)}, repetitions=2,
            warmup=0, device=CPU, clock=stage.clock)
    rounds = [stage.log[start:start + 3] for start in range(0, len(stage.log), 3)]
    assert [{sentence for _, sentence in played} for played in rounds] == [{100 + at} for at in range(6)] * 2
    assert all({who for who, _ in played} == set("abc") for played in rounds)
    assert len({tuple(who for who, _ in played) for played in rounds[:6]}) == 6  # all that three can have
    assert [who for who, _ in rounds[0]] != [who for who, _ in rounds[6]]  # the same sentence, another order


def test_few_batches_have_orders_that_are_spread_over_all() -> None:
    stage = Stage()
    measure([stage.contestant(str(number), 1) for number in range(12)], {1: sentences(5, 9)}, repetitions=2,
            warmup=0, device=CPU, clock=stage.clock)
    assert [int(who) for who, _ in stage.log[::12]] == [0, 3, 6, 9]  # who is first


def test_warm_up_is_not_in_the_times() -> None:
    stage = Stage()
    contestants = [stage.contestant("slow start", 50, 50, 1), stage.contestant("steady", 2)]
    timings = measure(contestants, {1: sentences(4, 4, 4)}, repetitions=3, warmup=2, device=CPU,
                      clock=stage.clock)[1]
    assert stage.log[:4] == [("slow start", 100), ("steady", 100), ("slow start", 101), ("steady", 101)]
    assert timings.seconds[0].tolist() == [[1] * 3] * 3
    assert timings.seconds[1].tolist() == [[2] * 3] * 3


def test_times_are_medians_of_repetitions_and_counts_are_the_decoders() -> None:
    stage = Stage()
    timings = measure([stage.contestant("jumpy", 3, 100, 4)], {1: sentences(4)}, repetitions=3, warmup=0,
                      device=CPU, clock=stage.clock)[1]
    assert timings.seconds.tolist() == [[[3], [100], [4]]]
    assert timings.medians.tolist() == [[4]]
    assert timings.tokens.tolist() == [[3]]
    assert timings.calls.tolist() == [[4]]
    assert timings.names == (("jumpy", "greedy"),)


def test_batches_are_timed_like_sentences() -> None:
    stage = Stage()
    timings = measure([stage.contestant("a", 1), stage.contestant("b", 2)],
                      {1: sentences(3, 5), 3: sentences(*range(1, 8))}, repetitions=1, warmup=1, device=CPU,
                      clock=stage.clock)
    assert timings[1].seconds.shape == (2, 1, 2)
    assert [timings[size].sentences for size in (1, 3)] == [2, 7]
    assert timings[3].seconds.shape == (2, 1, 3)
    assert timings[3].tokens.tolist() == [[9, 9, 3]] * 2
    assert timings[3].calls.tolist() == [[4, 4, 4]] * 2


def test_no_garbage_is_collected_inside_the_clock() -> None:
    seen = []
    stage = Stage()
    honest = stage.contestant("a", 1)

    def translate(source: Tensor) -> Hypotheses:
        seen.append(gc.isenabled())
        return honest.translate(source)

    def fail(source: Tensor) -> Hypotheses:
        raise RuntimeError("broken decoder")

    measure([Contestant("a", "greedy", translate)], {1: sentences(3, 3), 2: sentences(3, 3)}, repetitions=1, warmup=0,
            device=CPU)
    assert seen == [False] * 3
    with pytest.raises(RuntimeError, match="broken decoder"):
        measure([Contestant("a", "greedy", fail)], {1: sentences(3)}, repetitions=1, warmup=0, device=CPU)
    assert gc.isenabled()


@pytest.mark.parametrize(("contestants", "lengths", "repetitions"), [(0, [3], 1), (1, [], 1), (1, [3], 0)])
def test_nothing_to_measure_is_an_error(contestants: int, lengths: list[int], repetitions: int) -> None:
    with pytest.raises(PipelineError, match="nothing to measure"):
        measure([Stage().contestant("a", 1)] * contestants, {1: sentences(*lengths)}, repetitions=repetitions,
                warmup=0, device=CPU)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5))
def test_batches_hold_every_sentence_once(lengths: list[int], size: int) -> None:
    given_sentences = sentences(*lengths)
    batches = make_batches(given_sentences, size)
    rows = [row[row != PAD].tolist() for batch in batches for row in batch]
    assert sorted(rows) == sorted(sentence[0].tolist() for sentence in given_sentences)
    assert all(len(batch) == size for batch in batches[:-1])
    assert all((batch != PAD).any(0).all() for batch in batches)  # no column of padding only
    if size > 1:
        assert [len(row) for row in rows] == sorted(lengths, reverse=True)


@pytest.mark.parametrize("contestants", range(1, 14))
def test_turns_are_balanced(contestants: int) -> None:
    orders = turns(contestants)
    assert all(sorted(order) == list(range(contestants)) for order in orders)
    firsts = Counter(order[0] for order in orders)
    assert len(firsts) == contestants and len(set(firsts.values())) == 1
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert len(follows) == contestants * (contestants - 1) and len(set(follows.values())) <= 1


def test_a_ratio_is_one_of_total_times() -> None:
    # Two draws from two sentences: 6/2 and 2/2 with probability 1/4 each, 8/4 with 1/2.
    assert speed_ratio(np.array([6.0, 2.0]), np.array([2.0, 2.0])) == (2.0, 1.0, 3.0)


def test_an_interval_covers_as_it_promises() -> None:
    draw = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        other = draw.uniform(1, 3, 60)
        baseline = other * draw.uniform(1, 3, 60)  # the true ratio of the totals is 2
        _, low, high = speed_ratio(baseline, other)
        covered += low <= 2 <= high
    assert 180 <= covered <= 199


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=20), st.floats(0.1, 10))
def test_a_ratio_follows_the_scale(seconds: list[float], scale: float) -> None:
    times = np.array(seconds)
    assert speed_ratio(times, times) == (1, 1, 1)
    assert speed_ratio(times * scale, times) == pytest.approx((scale,) * 3)
    _, low, high = speed_ratio(times, times[::-1].copy())
    assert low <= high
    assert speed_ratio(times, times[::-1].copy())[1:] == (low, high)


def synthetic(names: list[tuple[str, str]], seconds: list[list[float]]) -> dict[int, Timings]:
    """Two sentences, the second of which is long; 10 and 30 words, 11 and 31 calls. Four more in one batch."""
    times = np.array(seconds)[:, None, :]
    counts = np.tile([10.0, 30.0], (len(names), 1))
    batched = times.sum(2, keepdims=True) / 4
    return {1: Timings(tuple(names), times, counts, counts + 1, 2),
            32: Timings(tuple(names), batched, counts.sum(1, keepdims=True), counts[:, :1], 4)}


NAMES = [("ar", "greedy"), ("ar", "beam5"), ("interleaved", "beam5"), ("interleaved", "beam9"),
         ("interleaved", "beam5_twice")]
SECONDS = [[0.1, 0.2], [0.2, 0.6], [0.1, 0.3], [0.4, 1.2], [0.1, 0.2]]


def report(long: list[bool]) -> dict[str, object]:
    return speed_report(synthetic(NAMES, SECONDS), np.ones(len(long), dtype=bool), np.array(long),
                        long_rule="the second", baseline="ar", counterparts={"beam5": "beam5", "beam5_twice": "beam5"},
                        machine={"device": "abacus"}, made={"date": "2026-01-02", "commit": "abc"})


def test_the_report_has_the_numbers_of_the_definitions() -> None:
    content = report([False, True])
    entries = content.pop("contestants")
    assert content == {"sentences": 2, "long_sentences": 1, "sentences_batch32": 4, "long_rule": "the second",
                       "repetitions": 1, "baseline": "ar", "machine": {"device": "abacus"},
                       "made": {"date": "2026-01-02", "commit": "abc"}}
    assert isinstance(entries, list)
    entry = entries[2]
    assert (entry["family"], entry["decoder"]) == ("interleaved", "beam5")
    assert entry["ms_per_sentence"] == pytest.approx(200)
    assert entry["ms_per_sentence_long"] == pytest.approx(300)
    assert (entry["calls"], entry["calls_long"]) == (21, 31)
    assert entry["tokens_per_second"] == pytest.approx(40 / 0.4)
    assert entry["tokens_per_second_batch32"] == pytest.approx(40 / 0.1)
    assert entry["ms_per_sentence_batch32"] == pytest.approx(25)
    assert entry["speedup_vs_beam5_batch32"] == pytest.approx([2, 2, 2])
    assert entry["speedup_vs_greedy_batch32"][0] == pytest.approx(0.3 / 0.4)
    assert entry["seconds_long"] == [0.3]
    assert entry["speedup_vs_beam5"] == pytest.approx([2, 2, 2])
    assert entry["speedup_vs_greedy"] == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    assert entry["speedup_vs_beam5_all"][0] == pytest.approx(0.8 / 0.4)
    assert entry["speedup_vs_greedy_all"][0] == pytest.approx(0.3 / 0.4)
    assert entry["ratio_vs_ar_same_decoder"] == pytest.approx([2, 2, 2])
    assert "ratio_vs_ar_same_decoder" not in entries[0]
    assert "ratio_vs_ar_same_decoder" not in entries[3]  # the baseline has nothing like beam9
    assert entries[4]["ratio_vs_ar_same_decoder"] == pytest.approx([3, 3, 3])
    assert entries[4]["counterpart"] == "beam5"


def test_a_quantised_search_of_the_baseline_is_compared_with_its_exact_one() -> None:
    names = [("ar", "greedy"), ("ar", "beam5"), ("ar", "greedy_int8")]
    entries = speed_report(synthetic(names, SECONDS[:3]), np.ones(2, dtype=bool), np.array([False, True]),
                           long_rule="the second", baseline="ar", machine={}, made={},
                           counterparts={"greedy": "greedy", "beam5": "beam5", "greedy_int8": "greedy"})["contestants"]
    assert [entry.get("counterpart") for entry in entries] == [None, None, "greedy"]
    assert entries[2]["ratio_vs_ar_same_decoder"] == pytest.approx([2 / 3, 2 / 3, 2 / 3])


def test_single_sentences_have_the_figures_of_those_that_represent_the_test_set() -> None:
    """The second sentence was timed for being long only."""
    entry = speed_report(synthetic(NAMES, SECONDS), np.array([True, False]), np.array([False, True]),
                         long_rule="the second", baseline="ar", machine={}, made={}, counterparts={})["contestants"][2]
    assert entry["ms_per_sentence"] == pytest.approx(100)
    assert entry["tokens_per_second"] == pytest.approx(10 / 0.1)
    assert entry["tokens_per_second_batch32"] == pytest.approx(40 / 0.1)


def test_without_long_sentences_their_figures_are_null() -> None:
    entries = report([False, False])["contestants"]
    assert isinstance(entries, list)
    for key in ("ms_per_sentence_long", "calls_long", "speedup_vs_beam5", "speedup_vs_greedy",
                "ratio_vs_ar_same_decoder"):
        assert entries[2][key] is None
    assert entries[2]["seconds_long"] == []
    assert entries[2]["speedup_vs_beam5_all"][0] == pytest.approx(2)
