"""The time that training will take is said before it begins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline import layout
from pipeline.files import remove
from pipeline.params import load_params
from pipeline.training import estimate
from pipeline.training.estimate import family_seconds, training_seconds, untrained


def test_what_has_no_checkpoint_is_untrained(workspace: Path) -> None:
    params = load_params()
    assert untrained(params, workspace) == []
    remove(workspace / layout.checkpoint("interleaved"))
    assert untrained(params, workspace) == ["interleaved"]
    assert untrained(params, workspace / "elsewhere") == ["teacher", "interleaved"]


def test_it_is_steps_times_the_time_of_a_step(workspace: Path, change_params: Callable[[dict[str, Any]], None],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    change_params({"families": {"interleaved": {"training": {"steps": 30, "threads": 4},
                                                "network": {"decoder_layers": 2}}}})
    monkeypatch.setattr(estimate, "seconds_a_step",
                        lambda network, tokens, vocabulary, threads: network.decoder_layers / threads)
    params = load_params()
    assert family_seconds(params, ["teacher", "interleaved"]) == {"teacher": 12 * 1.0, "interleaved": 30 * 2 / 4}
    assert training_seconds(params, ["teacher", "interleaved"]) == 12 * 1.0 + 30 * 2 / 4


def test_a_step_is_really_measured(workspace: Path) -> None:
    params = load_params()
    small, large = params.family("teacher").network, 40
    seconds = estimate.seconds_a_step(small, 64, 120), estimate.seconds_a_step(small, 64 * large, 120)
    assert 0 < seconds[0] < seconds[1]


def test_it_is_measured_with_the_threads_of_the_training(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    monkeypatch.setattr(estimate.time, "perf_counter", lambda: used.append(torch.get_num_threads()) or 0.0)
    estimate.seconds_a_step(load_params().family("teacher").network, 64, 120, threads=2)
    assert set(used) == {2} and torch.get_num_threads() == 1
