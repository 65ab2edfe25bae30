"""Batches: every row once, within the budget, the same for any number of devices and from any step on."""

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.corpus.batches import EvaluationBatches, TrainingBatches, cut_by_budget
from pipeline.corpus.datamodule import Batch
from pipeline.corpus.padding import pad_sources
from pipeline.errors import PipelineError
from pipeline.families.ordered import OrderedModule
from pipeline.families.settings import OptimisationSettings
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.vocabulary import EOS, PAD

lengths_of_rows = st.lists(st.integers(1, 30), min_size=1, max_size=60).map(lambda row: np.array(row, dtype=np.int64))


@given(lengths=lengths_of_rows, budget=st.integers(1, 90), least=st.integers(1, 4))
def test_cuts_cover_all_rows_and_keep_the_budget(lengths: NDArray[np.int64], budget: int, least: int) -> None:
    lengths = np.sort(lengths)
    runs = cut_by_budget(lengths, budget, least)
    assert [row for start, end in runs for row in range(start, end)] == list(range(len(lengths)))
    for start, end in runs:
        rows = end - start
        assert rows >= 1 and (rows >= least or end == len(lengths))
        assert rows <= least or rows * lengths[end - 1] <= budget
        # And no run is shorter than it need be.
        assert end == len(lengths) or (rows + 1) * lengths[end] > budget


def make(target: NDArray[np.int64], **options: Any) -> TrainingBatches:
    source = np.random.default_rng(3).integers(1, 30, len(target))
    return TrainingBatches(target, source, **{"budget": 60, "seed": 1, "steps": 50, **options})


TARGET = np.random.default_rng(4).integers(1, 25, 137)


def runs_of(batches: TrainingBatches) -> int:
    """Batches an epoch."""
    return len(batches._runs)


@pytest.mark.parametrize(("world", "slices"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)])
def test_an_epoch_has_every_row_once_over_all_devices(world: int, slices: int) -> None:
    devices = [make(TARGET, steps=200, world=world, slices=slices, rank=rank) for rank in range(world)]
    epoch = runs_of(devices[0]) * slices
    for start in (0, epoch):
        dealt = [list(islice(device, start, start + epoch)) for device in devices]
        rows = Counter(row for device in dealt for part in device for row in part.rows.tolist())
        assert rows == Counter(range(len(TARGET)))
    first, second = (list(islice(devices[0], start, start + epoch)) for start in (0, epoch))
    assert [part.rows.tolist() for part in first] != [part.rows.tolist() for part in second]  # shuffled anew


@pytest.mark.parametrize(("world", "slices"), [(2, 1), (1, 2), (2, 2)])
def test_devices_share_the_batches_that_one_would_see(world: int, slices: int) -> None:
    """(Where no batch has fewer rows than there are shares: that is what `least` is for.)"""
    target = np.full(120, 6)
    alone = make(target, steps=20)
    devices = [iter(make(target, steps=20, world=world, slices=slices, rank=rank)) for rank in range(world)]
    for batch in alone:
        parts = [next(device) for _ in range(slices) for device in devices]
        assert sorted(row for part in parts for row in part.rows.tolist()) == sorted(batch.rows.tolist())


@pytest.mark.parametrize(("world", "slices"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("start", [0, 1, 17, 49, 50])
def test_a_resumed_run_continues_the_stream(world: int, slices: int, start: int) -> None:
    for rank in range(world):
        whole = list(make(TARGET, world=world, slices=slices, rank=rank))
        rest = list(make(TARGET, world=world, slices=slices, rank=rank, start=start))
        assert [(part.rows.tolist(), part.weight) for part in rest] == [
            (part.rows.tolist(), part.weight) for part in whole[start * slices:]]
        assert len(whole) == 50 * slices == len(make(TARGET, world=world, slices=slices, rank=rank))


@pytest.mark.parametrize(("world", "slices"), [(1, 1), (1, 4), (3, 1), (2, 2)])
def test_weights_average_to_one_a_token(world: int, slices: int) -> None:
    devices = [list(make(TARGET, world=world, slices=slices, rank=rank)) for rank in range(world)]
    for step in range(50):
        parts = [part for device in devices for part in device[step * slices:(step + 1) * slices]]
        assert sum(part.weight * TARGET[part.rows].sum() for part in parts) == pytest.approx(slices * world)
        assert all(len(part.rows) for part in parts)


@given(lengths=lengths_of_rows, seed=st.integers(0, 3), budget=st.integers(1, 200))
def test_a_batch_keeps_the_budget_and_is_the_same_again(lengths: NDArray[np.int64], seed: int, budget: int) -> None:
    first, again = (list(make(lengths, seed=seed, budget=budget, steps=8)) for _ in range(2))
    assert [part.rows.tolist() for part in first] == [part.rows.tolist() for part in again]
    assert all(len(part.rows) == 1 or len(part.rows) * lengths[part.rows].max() <= budget for part in first)


def test_seeds_shuffle_differently() -> None:
    first, second = ([part.rows.tolist() for part in make(TARGET, seed=seed)] for seed in (1, 2))
    assert first != second


def test_too_few_rows_for_so_many_devices() -> None:
    with pytest.raises(PipelineError, match="3 training pairs cannot be divided among 2 devices with 2 accumulated"):
        make(np.array([3, 4, 5]), world=2, slices=2)
    assert len(next(iter(make(np.array([3, 4, 5, 6]), world=2, slices=2))).rows) == 1


@given(lengths=lengths_of_rows, budget=st.integers(1, 90), world=st.integers(1, 5))
def test_evaluation_batches_are_the_same_on_any_number_of_devices(
        lengths: NDArray[np.int64], budget: int, world: int) -> None:
    alone = [part.rows.tolist() for part in EvaluationBatches(lengths, budget=budget)]
    devices = [EvaluationBatches(lengths, budget=budget, rank=rank, world=world) for rank in range(world)]
    shared = [part.rows.tolist() for device in devices for part in device]
    assert sorted(batch for batch in shared if batch) == sorted(alone)
    assert {len(device) for device in devices} == {-(-len(alone) // world)}  # some with an empty batch
    assert sorted(row for batch in alone for row in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * lengths[batch].max() <= budget for batch in alone)
    assert [lengths[row] for batch in alone for row in batch] == sorted(lengths, reverse=True)
    assert [len(device) for device in devices] == [len(list(device)) for device in devices]


# The loss.

def test_label_smoothing_and_padding_by_hand() -> None:
    """Of an ordered family; the tests of the other kinds have their own."""
    network = NetworkSettings(width=16, heads=2, feed_forward=32, encoder_layers=1, decoder_layers=1, max_length=40,
                              dropout=0.0)
    module = OrderedModule(network, OrderSettings("left_to_right"), OptimisationSettings(),
                           VocabularySettings(20, 20, "")).double()
    targets, smoothing = [[8, 9, 10], [11]], 0.2
    batch = Batch(torch.arange(2), pad_sources([[12, 13], [14]], 40), torch.tensor([[8, 9, 10], [11, PAD, PAD]]),
                  torch.tensor([3, 1]), 1.0)
    loss, slots = module.loss(batch, smoothing)
    assert slots.item() == 6
    expected = 0.0
    arranged = torch.tensor([[8, 9, 10, EOS], [11, EOS, PAD, PAD]])
    scores = module.network(batch.source, arranged).log_softmax(2)
    for row, target in enumerate(targets):
        for slot, word in enumerate([*target, EOS]):
            expected -= (1 - smoothing) * scores[row, slot, word].item() + smoothing * scores[row, slot].mean().item()
    assert loss.item() == pytest.approx(expected, abs=1e-9)


def test_sources_are_cut_and_ended() -> None:
    padded = pad_sources([[7, 8, 9, 10], [11], []], 3)
    assert padded.tolist() == [[7, 8, EOS], [11, EOS, PAD], [EOS, PAD, PAD]]
    assert pad_sources([], 3).shape == (0, 0)


@pytest.mark.parametrize("schedule", ["linear", "inverse_square_root", "constant"])
def test_schedules_rise_to_their_peak_and_never_exceed_it(schedule: str) -> None:
    factor: Callable[[int, int], float] = OptimisationSettings(schedule=schedule, warmup_steps=10).factor
    factors = [factor(step, 100) for step in range(101)]
    assert factors[0] == pytest.approx(0.1) and max(factors) == factors[9] == 1.0
    assert factors[:10] == sorted(factors[:10])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert factors[100] == pytest.approx({"linear": 0.0, "inverse_square_root": 0.1**0.5, "constant": 1.0}[schedule])
    assert OptimisationSettings(schedule=schedule, warmup_steps=0).factor(0, 100) == 1.0
