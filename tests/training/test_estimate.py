"""The time that training will take is said before it begins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import layout
from pipeline.files import remove
from pipeline.params import load_params
from pipeline.training import estimate
from pipeline.training.estimate import training_seconds, untrained


def test_what_has_no_checkpoint_is_untrained(workspace: Path) -> None:
    params = load_params()
    assert untrained(params, workspace) == []
    remove(workspace / layout.checkpoint("interleaved"))
    assert untrained(params, workspace) == ["interleaved"]
    assert untrained(params, workspace / "elsewhere") == ["teacher", "interleaved"]


def test_it_is_steps_times_the_time_of_a_step(workspace: Path, change_params: Callable[[dict[str, Any]], None],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    change_params({"families": {"interleaved": {"training": {"steps": 30}, "network": {"decoder_layers": 2}}}})
    monkeypatch.setattr(estimate, "seconds_a_step", lambda network, tokens, vocabulary: float(network.decoder_layers))
    params = load_params()
    assert training_seconds(params, ["teacher", "interleaved"]) == 12 * 1.0 + 30 * 2.0


def test_a_step_is_really_measured(workspace: Path) -> None:
    params = load_params()
    small, large = params.family("teacher").network, 40
    seconds = estimate.seconds_a_step(small, 64, 120), estimate.seconds_a_step(small, 64 * large, 120)
    assert 0 < seconds[0] < seconds[1]
