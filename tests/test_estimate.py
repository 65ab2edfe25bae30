"""How long training will take is predicted before it begins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from baselines import STARTS, STUDENTS
from torch import Tensor

from pipeline import estimate, layout
from pipeline.estimate import family_seconds, training_time, untrained
from pipeline.files import remove
from pipeline.model.transformer import Transformer
from pipeline.params import load_params


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
                        lambda network, tokens, vocabulary, threads, precision: network.decoder_layers / threads)
    params = load_params()
    assert family_seconds(params, ["teacher", "interleaved"]) == {"teacher": 12 * 1.0, "interleaved": 30 * 2 / 4}


def test_students_that_train_at_once_are_counted_so(
        workspace: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch) -> None:
    change_params(STUDENTS)
    monkeypatch.setattr(estimate, "seconds_a_step", lambda *_: 2.0)
    params = load_params()
    everything = ["teacher", *STARTS]
    assert training_time(params, everything, 1) == 5 * 12 * 2.0
    assert training_time(params, everything, 2) == (1 + 3) * 12 * 2.0
    assert training_time(params, ["ar", "small", "late"], 2) == 3 * 12 * 2.0  # a chain


def test_a_step_is_really_measured(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quickest of a few, over as many tokens as a batch has."""
    ticks, shapes, forward = iter([0, 9, 9, 12, 12, 17, 17, 25, 25, 40]), list[tuple[int, ...]](), Transformer.forward

    def noted(self: Transformer, source: Tensor, arranged: Tensor) -> Tensor:
        shapes.append(tuple(source.shape))
        return forward(self, source, arranged)

    monkeypatch.setattr(estimate.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(Transformer, "forward", noted)
    assert estimate.seconds_a_step(load_params().family("teacher").network, 64, 120) == 3
    assert shapes == [(4, 16)] * 5 and next(ticks, None) is None


def test_it_is_measured_with_the_threads_and_the_precision_of_the_training(
        workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, forward = list[tuple[int, bool]](), Transformer.forward

    def noted(self: Transformer, source: Tensor, arranged: Tensor) -> Tensor:
        used.append((torch.get_num_threads(), torch.is_autocast_enabled("cpu")))
        return forward(self, source, arranged)

    monkeypatch.setattr(Transformer, "forward", noted)
    monkeypatch.setattr(estimate, "_STEPS", 1)
    for precision in ("32-true", "bf16-mixed"):
        estimate.seconds_a_step(load_params().family("teacher").network, 64, 120, 2, precision)
    assert used == [(2, False), (2, True)] and torch.get_num_threads() == 1
