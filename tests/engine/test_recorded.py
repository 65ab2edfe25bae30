"""Functions that a GPU would record: on a CPU, their results are their own, and nothing in them looks at a tensor."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from looks import Looks
from searches import ALGORITHMS, decoder, searched_by
from sentences import sources
from torch import Tensor

from pipeline.decoding import lattice
from pipeline.decoding.chain import recorded_viterbi
from pipeline.engine import recorded
from pipeline.engine.door import open_engine, use_engine
from pipeline.engine.recorded import Recorder
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]


def double(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(2 * one for one in tensors)


def test_results_outlive_the_next_call_and_belong_to_their_shapes() -> None:
    record, some, others = Recorder(), torch.arange(3.0), torch.tensor([5.0, 6.0, 7.0])
    for _ in range(3):
        first, = record("double", double, some)
        second, = record("double", double, others)
        both = record("double", double, some, others[:2])
        assert torch.equal(first, 2 * some) and torch.equal(second, 2 * others)
        assert torch.equal(both[0], 2 * some) and torch.equal(both[1], 2 * others[:2])
        assert record("double", double, some.int())[0].dtype == torch.int32
        assert not record("double", double, some.clone().requires_grad_())[0].requires_grad


def test_many_rows_and_autocast_are_computed_as_they_are() -> None:
    record, taken = Recorder(), list[Tensor]()

    def take(one: Tensor) -> Tensor:
        taken.append(one)
        return one + 1

    few, many = torch.zeros(recorded._ROWS, 1), torch.zeros(recorded._ROWS + 1, 1)
    record("take", take, few)
    record("take", take, many)
    with torch.autocast("cpu"):
        record("take", take, few)
    assert taken[0] is not few and taken[1] is many and taken[2] is few


@pytest.mark.parametrize(("bound", "most"), [("_KEPT", 2), ("_KEPT_BYTES", 16)])
def test_what_was_not_used_for_the_longest_time_is_forgotten(monkeypatch: pytest.MonkeyPatch, bound: str,
                                                             most: int) -> None:
    monkeypatch.setattr(recorded, bound, most)
    record = Recorder()
    for columns in (1, 2, 1, 3):
        record("double", double, torch.zeros(1, columns))
    assert [key[1][0][1] for key in record._known] == [1, 3]


def test_an_opened_network_is_freed_with_what_it_has_recorded(tiny: Tiny) -> None:
    with use_engine("static"):
        model = open_engine(tiny())
        model.encode(sources(5))
        assert model.recorder._known
        freed = weakref.ref(model.recorder)
        model.clear_caches()
        gc.collect()
    assert freed() is None and not model.recorder._known


@pytest.mark.parametrize("lengths", [(5,), (3, 6, 2)], ids=["one sentence", "a batch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_looks_at_a_tensor_while_it_is_recorded(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, algorithm: str,
                                                        lengths: tuple[int, ...]) -> None:
    original, names = Recorder.__call__, set[str]()

    def watched(self: Recorder, name: str, function: Callable[..., Any], *tensors: Tensor) -> Any:
        def compute(*arguments: Tensor) -> Any:
            with Looks() as looks:
                found = function(*arguments)
            assert not looks.total, looks.places
            return found
        names.add(name)
        return original(self, name, compute, *tensors)

    monkeypatch.setattr(Recorder, "__call__", watched)
    monkeypatch.setattr(lattice, "viterbi", recorded_viterbi)
    with use_engine("static"):
        model, decode, source = searched_by(algorithm, tiny), decoder(algorithm), sources(*lengths)
        for _ in range(2):  # what is computed once and kept may look at first
            decode(model, source)
    assert "viterbi" in names if algorithm == "lattice" else "encoder" in names or algorithm == "counts"
