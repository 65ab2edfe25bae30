"""How long training will take is predicted before it begins."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from baselines import STARTS, STUDENTS
from torch import Tensor

from pipeline import estimate, layout
from pipeline.commands.repro import _announce
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


@pytest.mark.parametrize(("accelerated", "announced"), [
    (False, "24 training steps, about 24 minutes with up to 2 students at once unless DVC's cache has them; "),
    (True, "24 training steps with up to 2 students at once unless DVC's cache has them; ")])
def test_the_time_of_an_accelerator_is_not_announced(
        workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], accelerated: bool,
        announced: str) -> None:
    """Nor measured: the CPU may take long for a batch of such a training."""
    measured: list[int] = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: accelerated)
    monkeypatch.setattr(estimate, "seconds_a_step", lambda *_: measured.append(1) or 60.0)
    _announce(load_params(), Path("elsewhere"), 2)
    assert capsys.readouterr().out.startswith(f"2 systems have no checkpoint in elsewhere/checkpoints: {announced}")
    assert bool(measured) is not accelerated


@pytest.mark.parametrize(("cost", "accelerated", "told"), [
    (16.5, False, ["training.precision: bf16-mixed: a product takes 16.5 times as long as in 32-true on this "
                   "processor; set training.precision to 32-true in the preset or in params.yaml"]),
    (1.15, False, []), (16.5, True, [])])
def test_a_precision_that_the_processor_does_not_multiply_is_announced(
        workspace: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str], cost: float, accelerated: bool, told: list[str]) -> None:
    """Before weeks of training are estimated; what is computed in float32 or in more needs no comparison."""
    change_params({"families": {"interleaved": {"training": {"precision": "bf16-mixed"}},
                                "teacher": {"training": {"precision": "64-true"}}}})
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: accelerated)
    monkeypatch.setattr(estimate, "seconds_a_step", lambda *_: 60.0)
    compared = list[str]()

    def seconds(network: Any, tokens: int, precision: str) -> float:
        compared.append(precision)
        return {"bf16-mixed": 0.01 * cost, "32-true": 0.01}[precision]

    monkeypatch.setattr(estimate, "seconds_a_product", seconds)
    _announce(load_params(), Path("elsewhere"), 2)
    assert capsys.readouterr().out.splitlines()[:-1] == told
    assert compared == ([] if accelerated else ["bf16-mixed", "32-true"])


def test_a_product_is_really_measured(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quickest of a few, of the batch's rows, or as many as a CPU can hold, and in the precision."""
    reading, seen, product = iter([0, 0.9, 1, 1.3, 2, 2.5, 3, 4, 5, 6]), list[tuple[Any, ...]](), estimate.F.linear

    def noted(rows: Tensor, weight: Tensor) -> Tensor:
        found = product(rows, weight)
        seen.append((tuple(found.shape), found.dtype))
        return found

    monkeypatch.setattr(estimate.time, "perf_counter", lambda: next(reading))
    monkeypatch.setattr(estimate.F, "linear", noted)
    settings = load_params().family("teacher").network
    assert estimate.seconds_a_product(settings, 640_000, "bf16-mixed") == pytest.approx(0.3)
    assert seen == [((2048, settings.feed_forward), torch.bfloat16)] * 5
    monkeypatch.setattr(estimate.time, "perf_counter", lambda: 0.0)
    estimate.seconds_a_product(settings, 10, "32-true")
    assert seen[5:] == [((10, settings.feed_forward), torch.float32)] * 5


@pytest.mark.parametrize(("tokens", "longest", "shape", "share"), [
    (64, 64, (4, 16), 1), (640_000, 64, (128, 16), 2048 / 640_000), (70, 10, (7, 10), 1)])
@pytest.mark.parametrize(("ticks", "seconds"), [
    ([0, 0.9, 0.9, 1.2, 1.2, 1.7, 1.7, 2.5, 2.5, 2.9], 0.3), ([0, 2, 2, 3.5], 1.5)], ids=["quick", "slow"])
def test_a_step_is_really_measured(workspace: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, longest: int,
                                   shape: tuple[int, int], share: float, ticks: list[float], seconds: float) -> None:
    """The quickest of a few, over as many tokens as a batch has, or over the share of it that a CPU can hold."""
    reading, shapes, forward = iter(ticks), list[tuple[int, ...]](), Transformer.forward

    def noted(self: Transformer, source: Tensor, arranged: Tensor) -> Tensor:
        shapes.append(tuple(source.shape))
        return forward(self, source, arranged)

    monkeypatch.setattr(estimate.time, "perf_counter", lambda: next(reading))
    monkeypatch.setattr(Transformer, "forward", noted)
    settings = replace(load_params().family("teacher").network, max_length=longest)
    assert estimate.seconds_a_step(settings, tokens, 120) == pytest.approx(seconds / share)
    assert shapes == [shape] * (len(ticks) // 2) and next(reading, None) is None


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
