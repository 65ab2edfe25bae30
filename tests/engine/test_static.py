"""Static steps: on a CPU, every search by them finds what it finds by torch, and its host waits once per step."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from looks import Looks
from searches import ALGORITHMS, decoder, searched_by, short_and_long
from sentences import sources
from torch import Tensor

from pipeline.engine import space
from pipeline.engine.door import engine_in_use, open_engine, use_engine
from pipeline.engine.static import Static, StaticState
from pipeline.model.formats import in_format
from pipeline.model.state import State
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
SEVERAL = 3, 6, 9, 2, 4


@pytest.mark.parametrize("lengths", [(5,), SEVERAL], ids=["one sentence", "a batch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_by_static_steps_is_the_search_by_torch(tiny: Tiny, algorithm: str, lengths: tuple[int, ...]) -> None:
    model, decode, source = searched_by(algorithm, tiny), decoder(algorithm), sources(*lengths)
    with use_engine("torch"):
        expected = decode(model, source)
    with use_engine("static"):
        for _ in range(2):  # the second one has the memory of the first
            found = decode(model, source)
            assert found.best_words() == expected.best_words() and torch.equal(found.calls, expected.calls)
            torch.testing.assert_close(found.scores, expected.scores)


@pytest.mark.parametrize("lengths", [(4,), SEVERAL], ids=["one sentence", "a batch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_host_waits_once_per_step(tiny: Tiny, algorithm: str, lengths: tuple[int, ...]) -> None:
    model, calls, looks = searched_by(algorithm, tiny), list[int](), list[Looks]()
    for decode in short_and_long(algorithm):
        with use_engine("static"), Looks() as counted:
            found = decode(model, sources(*lengths))
        calls.append(int(found.calls.max()))
        looks.append(counted)
    assert calls[1] > calls[0] or algorithm in ("counts", "draft", "lattice")  # which have one call, or none
    # It may look once more where a sentence leaves the batch.
    assert looks[1].total - looks[0].total <= calls[1] - calls[0] + len(lengths) - 1, looks[1].places
    once_per_search = 14 if algorithm == "lattice_gad" else 10
    assert looks[1].total <= calls[1] + once_per_search, looks[1].places


def test_a_quantised_step_copies_nothing_from_the_host(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph cannot record such a copy."""
    with use_engine("static"):
        model, tokens = open_engine(in_format(tiny(), "int8")), torch.tensor([[7]])
        state = model.start(model.encode(sources(5)))
        monkeypatch.setattr(Tensor, "new_tensor", None)
        monkeypatch.setattr(torch, "tensor", None)
        model.step(tokens, state)


def test_a_step_whose_recording_failed_is_recorded_again(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = list[bool]()

    class Graph:
        def __init__(self) -> None:
            self.holds = False

        def replay(self) -> None:
            graphs.append(self.holds)

    @contextmanager
    def recording(graph: Graph, capture_error_mode: str) -> Iterator[None]:
        yield
        graph.holds = True

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    with use_engine("static"):
        model, tokens = open_engine(tiny()), torch.tensor([[7]])
        state = model.start(model.encode(sources(5)))
        state._space.records = True
        model.step(tokens, state)
        with monkeypatch.context() as failing:
            failing.setattr(Transformer, "_logits", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model.step(tokens, state)
        for _ in range(2):
            model.step(tokens, state)
    assert graphs == [True, True]


def readings(network: Transformer, source: Tensor) -> list[Tensor]:
    """Logits and hidden states of steps between which rows leave, change places and forget."""
    model, z, seen = open_engine(network), network.order.width, list[Tensor]()
    state = model.start(model.encode(source), beams=2, capacity=2 * z)

    def read(n: int) -> None:
        tokens = torch.arange(state.rows * n).view(state.rows, n) % 13 + 7
        seen.extend((model.step(tokens, state).clone(), state.hidden.clone()))

    read(z)
    read(3 * z)
    state.select(torch.tensor([1, 0, 3, 3, 5, 4]))  # within sentences
    read(z)
    state.rewind(2 * z)
    read(2 * z)
    state.select(torch.tensor([4, 5, 0, 0]))  # a sentence leaves, the others change places
    read(z)
    state.rewind(z * np.array([1, 3, 2, 4]))  # rows of different lengths
    read(2 * z)
    state.select(torch.tensor([1, 0]))
    read(z)
    state.rewind(z)
    for _ in range(7):  # beyond the first places
        read(2 * z)
    assert isinstance(state, StaticState) == isinstance(model, Static) == (engine_in_use() == "static")
    return seen


@pytest.mark.parametrize("order", ["left_to_right", "interleaved"])
@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 3, 4)])
def test_a_static_state_does_what_a_state_does(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, order: str,
                                               lengths: tuple[int, ...]) -> None:
    monkeypatch.setattr(space, "_FEWEST", 4)
    network, source = tiny(order), sources(*lengths)
    with use_engine("torch"):
        expected = readings(network, source)
    with use_engine("static"):
        found = readings(network, source)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


def test_memory_is_used_again_by_states_of_the_same_shape_and_only_when_it_is_free(tiny: Tiny,
                                                                                  monkeypatch: pytest.MonkeyPatch
                                                                                  ) -> None:
    with use_engine("static"):
        model = open_engine(tiny())
        memory, tokens = model.encode(sources(5)), torch.tensor([[7]])
        first, second = model.start(memory), model.start(memory)
        expected = model.step(tokens, first).clone()
        assert second._space is not first._space
        torch.testing.assert_close(model.step(tokens, second), expected)
        freed = first._space
        model.step(torch.tensor([[8]]), first)
        del first
        gc.collect()
        third = model.start(memory)
        assert third._space is freed and third.length == 0
        torch.testing.assert_close(model.step(tokens, third), expected)
        monkeypatch.setattr(space, "_KEPT", 0)
        del third
        assert model.start(memory)._space is not freed


def test_torch_and_static_steps_can_take_turns(tiny: Tiny) -> None:
    network, tokens = tiny(), torch.tensor([[7]])
    with use_engine("static"):
        model = open_engine(network)
        memory = model.encode(sources(5))
        state = model.start(memory)
        with use_engine("torch"):
            other = model.start(memory)
            assert isinstance(other, State)
            torch.testing.assert_close(model.step(tokens, state), model.step(tokens, other))


def test_too_many_tokens_are_an_error(tiny: Tiny) -> None:
    with use_engine("static"):
        model = open_engine(tiny())
        state, places = model.start(model.encode(sources(5))), len(model.order_mask)
        state.rewind(places - 1)
        with pytest.raises(IndexError, match=f"{places + 1} tokens are more than the {places} places"):
            model.step(torch.tensor([[7, 8]]), state)
