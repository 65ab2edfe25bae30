"""Static steps: on a CPU, every search by them finds what it finds by torch, and its host waits once per step."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from looks import Looks
from masked import masked
from searches import ALGORITHMS, decoder, searched_by, short_and_long
from sentences import sources
from torch import Tensor

from pipeline.engine import space, static
from pipeline.engine.door import engine_in_use, open_engine, use_engine
from pipeline.engine.recorded import GraphMemory, Recording
from pipeline.engine.space import Pool, Shape, Space
from pipeline.engine.static import Static, StaticState
from pipeline.model.formats import in_format
from pipeline.model.state import State
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
SEVERAL = 3, 6, 9, 2, 4


def overwrite_as_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each computation overwrites the results of the last one whose graph would share its memory."""
    compute, last = Recording.__call__, dict[GraphMemory, Any]()

    def overwriting(self: Recording[Any], function: Callable[[], Any]) -> Any:
        for one in last.get(self.memory, ()):
            one.fill_(torch.nan if one.is_floating_point() else 0)
        found = compute(self, function)
        last[self.memory] = (found,) if isinstance(found, Tensor) else found
        return found

    monkeypatch.setattr(Recording, "__call__", overwriting)


@pytest.mark.parametrize("lengths", [(5,), SEVERAL], ids=["one sentence", "a batch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_by_static_steps_is_the_search_by_torch(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, algorithm: str,
                                                         lengths: tuple[int, ...]) -> None:
    overwrite_as_graphs(monkeypatch)
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


@dataclass(eq=False)
class Graph:
    """Stands in for a CUDA graph."""

    launched: list["Graph"]
    holds: bool = False
    memory: Any = None

    def replay(self) -> None:
        assert self.holds
        self.launched.append(self)

    def pool(self) -> Any:
        return self.memory


@dataclass
class Gpu:
    """Stands in for a GPU that records."""

    stream: str = "main"
    broken: bool = False
    launched: list[Graph] = field(default_factory=list)

    @contextmanager
    def use(self, stream: str) -> Iterator[None]:
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    @contextmanager
    def record(self, graph: Graph, pool: Any, capture_error_mode: str) -> Iterator[None]:
        self.stream = "recording"
        if self.broken:
            raise torch.OutOfMemoryError("CUDA out of memory")  # where PyTorch does not restore the stream
        yield
        graph.holds, graph.memory, self.stream = True, object() if pool is None else pool, "main"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()
    for name, value in {"CUDAGraph": lambda: Graph(gpu.launched), "graph": gpu.record, "stream": gpu.use,
                        "current_stream": lambda: gpu.stream, "memory_reserved": count(0, 1000).__next__}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return gpu


def recording_state(model: Any) -> Any:
    state = model.start(model.encode(sources(5)))
    state._space.records = True
    return state


def test_a_step_whose_computation_failed_is_recorded_again(tiny: Tiny, monkeypatch: pytest.MonkeyPatch,
                                                           gpu: Gpu) -> None:
    with use_engine("static"):
        model, tokens = open_engine(tiny()), torch.tensor([[7]])
        state = recording_state(model)
        model.step(tokens, state)
        with monkeypatch.context() as failing:
            failing.setattr(Transformer, "_logits", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model.step(tokens, state)
        assert gpu.stream == "main"
        for _ in range(2):
            model.step(tokens, state)
    assert len(gpu.launched) == 2


def test_a_step_that_cannot_be_recorded_is_computed(tiny: Tiny, gpu: Gpu) -> None:
    with use_engine("static"):
        model = open_engine(tiny())
        state, other = recording_state(model), model.start(model.encode(sources(5)))
        for n, broken, launched in ((1, False, 0), (1, False, 1), (2, False, 1), (2, True, 1), (2, False, 1),
                                    (3, False, 1), (3, False, 2)):
            tokens, gpu.broken = torch.full((1, n), 7), broken
            for one in (state, other):
                one.rewind(0)
            found, expected = model.step(tokens, state), model.step(tokens, other)
            assert gpu.stream == "main" and len(gpu.launched) == launched
            if n == 2:
                torch.testing.assert_close(found, expected)
        first, after = gpu.launched
        assert after.memory is not first.memory


def test_graphs_of_a_space_share_memory_that_counts_and_are_bounded(tiny: Tiny, monkeypatch: pytest.MonkeyPatch,
                                                                    gpu: Gpu) -> None:
    monkeypatch.setattr(static, "_STEPS", 2)
    with use_engine("static"):
        model = open_engine(tiny())
        state = recording_state(model)
        tensors = state._space.size
        for n in (1, 2, 1, 3):
            for _ in range(2):
                state.rewind(0)
                model.step(torch.full((1, n), 7), state)
        assert [tokens for tokens, *_ in state._space.steps] == [1, 3]
        assert len(set(gpu.launched)) == 3 and len({graph.memory for graph in gpu.launched}) == 1
        assert state._space.size == tensors + 3 * 1000
        monkeypatch.setattr(space, "_KEPT", tensors + 2999)
        del state
        gc.collect()
    assert not model.pool._free


def test_a_step_made_in_inference_mode_is_used_outside_it(tiny: Tiny) -> None:
    with use_engine("static"):
        model, tokens = open_engine(tiny()), torch.tensor([[7]])
        state = model.start(model.encode(sources(5)))
        for mode in (torch.inference_mode(), nullcontext()):
            with mode:
                model.step(tokens, state)


@pytest.mark.parametrize("pieces", [16, 17, 20, 24])
def test_sources_are_padded_to_what_a_masked_model_reads(pieces: int) -> None:
    model, decode, source = masked(), decoder("mask_predict"), sources(pieces)
    with use_engine("torch"):
        expected = decode(model, source).best_words()
    with use_engine("static"):
        assert decode(model, source).best_words() == expected


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
    def give(pool: Pool, space: Space) -> None:
        for one in (space.past, space.source):
            one.fill_(torch.nan)  # it may be another state's at once
        given(pool, space)

    given = Pool.give
    monkeypatch.setattr(Pool, "give", give)
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


def test_a_space_is_taken_once_whatever_is_taken_and_given_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    like, shape = torch.zeros(1, 2, 1, 1, 4, 2), Shape(1, 1, 4, 4)
    others = [Space(Shape(1, 1, 4, tokens), like, False) for tokens in (8, 16)]
    wanted, pool, taken = Space(shape, like, False), Pool(), list[Space]()
    monkeypatch.setattr(space, "_KEPT", wanted.size + others[1].size)

    class Asked:
        """A tensor that is asked for its type in the middle of `take`, when a state is collected and another begins."""

        @property
        def dtype(self) -> torch.dtype:
            pool.give(others[1])  # forgets the first of `others`
            thread.start()
            thread.join(0.1)  # in vain if it has to wait
            return like.dtype

    pool.give(others[0])
    pool.give(wanted)
    thread = Thread(target=lambda: taken.append(pool.take(shape, like)))
    found = pool.take(shape, Asked())  # type: ignore[arg-type]
    thread.join()
    assert found is wanted and taken != [wanted]
    assert pool.take(others[1].shape, like) is others[1] and pool.take(others[0].shape, like) is not others[0]


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
