"""How many tokens are independent of the previous one: counted by hand, and in a toy run."""

import json
from collections.abc import Callable
from math import comb
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline import layout
from pipeline.analysis_settings import JacobiAnalysesSettings
from pipeline.corpus.bpe import Tokenizer
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.jacobi.ddg import Share, ask, ddg, summarise
from pipeline.evaluation.analyses.jacobi.grid import Cell, Grid
from pipeline.evaluation.analyses.measured import Measurements
from pipeline.params import load_params

PIECES = ["▁a", "b", ",", "</s>", "▁("]


def grid(tokens: list[int], settled: list[int], ended: bool = True) -> Grid:
    rows = [[Cell(token, 0.5, number >= first) for token, first in zip(tokens, settled, strict=True)]
            for number in range(1, max(settled) + 1)]
    return Grid(rows, ended)


FIRST, SECOND = grid([0, 1, 2, 0, 4, 3], [1, 2, 2, 3, 4, 1]), grid([0, 0, 3], [1, 1, 2], ended=False)


def test_counts() -> None:
    summary = summarise([FIRST, SECOND], PIECES)
    assert (summary.sentences, summary.tokens, summary.iterations) == (2, 9, 6)
    assert summary.iterations_per_token == pytest.approx((4 / 6 + 2 / 3) / 2)
    assert summary.overall == Share(3, 7)
    assert summary.parts == {"first_third": Share(0, 1), "middle_third": Share(2, 3), "last_third": Share(1, 3)}
    # Where the limit cuts, the last token is a piece like any other: "</s>" is then taken for letters.
    assert summary.kinds == {"begins_word": Share(1, 2), "inside_word": Share(0, 2), "punctuation": Share(1, 2),
                             "end_symbol": Share(1, 1)}
    assert json.loads(json.dumps(summary.metric()))["overall"]["tokens"] == 7


def test_a_sentence_of_one_token_has_none_to_do_without() -> None:
    summary = summarise([grid([3], [1])], PIECES)
    assert summary.overall is None and summary.parts == summary.kinds == {}
    assert "not_measured" in ddg([grid([3], [1])], PIECES, {}).metric
    assert ddg([], PIECES, {}).metric == {"not_measured": "no sentence is long"}


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_ends_where_the_share_is_just_credible(counts: tuple[int, int]) -> None:
    share = Share(*counts)
    low, high = share.interval
    assert 0 <= low <= share.value <= high <= 1
    for end in (low, high):
        if 1e-9 < end < 1 - 1e-9:  # (p - end)² = z² end (1 - end) / n, the normal test turned around
            assert (share.value - end)**2 == pytest.approx(1.959964**2 * end * (1 - end) / share.tokens)


def test_wilsons_interval_covers() -> None:
    """Of 40 draws at 0.3 the interval holds 0.3 nearly 19 times of 20."""
    n, p = 40, 0.3
    held = [count for count in range(n + 1) if Share(count, n).interval[0] <= p <= Share(count, n).interval[1]]
    assert 0.93 < sum(comb(n, count) * p**count * (1 - p)**(n - count) for count in held) < 0.98


def test_figures_and_picture() -> None:
    finding = ddg([FIRST, SECOND], PIECES, {"family": "ar"})
    assert finding.metric["family"] == "ar" and finding.metric["overall"]["share"] == 3 / 7
    labels = [label.get_text() for label in finding.figure.axes[0].get_yticklabels()]
    assert labels[:2] == ["all", "first third"] and len(labels) == 8


@pytest.fixture
def run(change_params: Callable[[dict[str, Any]], None]) -> Callable[..., FinishedRun]:
    """A function from changed parameters to the toy run."""
    def make(**changes: Any) -> FinishedRun:
        change_params({"analyses": {"jacobi": {"sentences": 3}}, "speed": {"long_tokens": 6}, **changes})
        return FinishedRun(load_params(), Tokenizer.load(layout.BPE), torch.device("cpu"), Measurements("all", {}))
    return make


def test_the_first_long_sentences_of_a_run(run: Callable[..., FinishedRun]) -> None:
    metric = ask(run()).metric
    assert metric["family"] == "teacher" and metric["sentences"] == 3
    assert metric["long_rule"] == "greedy output of teacher has at least 6 tokens"
    assert metric["tokens"] >= 3 * 6 and 0 < metric["iterations_per_token"] <= 1
    assert metric["overall"]["tokens"] == metric["tokens"] - 3 == sum(
        part["tokens"] for part in metric["parts"].values())


@pytest.mark.parametrize(("changes", "message"), [
    ({"baseline": "interleaved"}, "the baseline 'interleaved' does not generate one word per step"),
    ({"speed": {"long_tokens": 1000}}, "no sentence is long")])
def test_what_is_not_measured(run: Callable[..., FinishedRun], changes: dict[str, Any], message: str) -> None:
    assert ask(run(**changes)).metric == {"not_measured": message}


def test_impossible_settings() -> None:
    with pytest.raises(PipelineError, match="sentences: 0 must be at least 1"):
        JacobiAnalysesSettings(0)
