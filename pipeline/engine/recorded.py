"""Computations that are recorded once as a CUDA graph and then launched as one operation.

A graph reads and writes the same memory each time. A `Recording` leaves that memory to its owner; a `Recorder` has some
of its own for each function and shape, into which it copies arguments and out of which it copies results.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

_RECORDING = Lock()
"""A process can record one graph at a time, also of several networks."""
_ROWS = 8
"""The most rows of a function's first argument with which it is recorded: more take longer to compute than to
launch."""
_KEPT = 64
"""The most functions and shapes that a recorder keeps."""
_KEPT_BYTES = 2**30
"""The most bytes of arguments and graphs that a recorder keeps."""
Results = TypeVar("Results")


@dataclass(eq=False)
class GraphMemory:
    """The memory of intermediate and final results of graphs, of which only those of the last launch are ever read.

    So several graphs can share it, in whatever order they are launched, one after the other.
    """

    size: int = 0
    """Bytes that have been allocated for graphs, and what its owner adds to them."""
    pool: Any = None
    """PyTorch's name of it; None before the first graph."""


class Recording(Generic[Results]):
    """One computation on fixed memory. Its results are overwritten by the next one whose graph shares its memory."""

    def __init__(self, records: bool, memory: GraphMemory) -> None:
        """Args:
            records: whether it is recorded; otherwise it is computed each time.
            memory: for its graph.
        """
        self.memory = memory
        self.graph: Any = None
        self._records, self._computed = records, False
        self._results: Results | None = None  # of the graph

    def __call__(self, compute: Callable[[], Results]) -> Results:
        """The results of `compute`, which is the same computation each time.

        It is not kept: it may hold a network, which holds this.
        """
        if self._records and self._computed and self.graph is None:  # what comes up once is not worth a graph
            self._record(compute)
        if self.graph is None:
            results = compute()
            self._computed = True
            return results
        self.graph.replay()
        return self._results  # type: ignore[return-value]  # a graph has results

    def _record(self, compute: Callable[[], Results]) -> None:
        """Record it, or never try again: what a GPU has no memory to record, it may still compute."""
        memory, graph = self.memory, torch.cuda.CUDAGraph()
        try:
            # The outer stream is also restored where a graph that cannot be ended leaves its own in use.
            with (_RECORDING, torch.cuda.stream(torch.cuda.current_stream()),
                  torch.cuda.graph(graph, memory.pool, capture_error_mode="thread_local")):
                before = torch.cuda.memory_reserved()
                results = compute()
                allocated = torch.cuda.memory_reserved() - before
        except RuntimeError:  # an error of the computation itself comes again without a graph
            self._records = False
            memory.pool = None  # PyTorch may refuse to record to it again
        else:
            self.graph, self._results = graph, results
            memory.pool, memory.size = graph.pool(), memory.size + max(0, allocated)


class Recorder:
    """Functions of few rows of tensors, which have no other effect and do not look at a tensor."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, tuple[list[Tensor], Recording[Any]]] = OrderedDict()  # the last used is the last
        self._lock = Lock()  # between copying arguments and copying results

    @torch.no_grad()
    def __call__(self, name: str, function: Callable[..., Any], *tensors: Tensor) -> Any:
        """`function` of tensors on one device, without gradients.

        Args:
            name: of the function: of the same name, with arguments of the same shapes and types, it computes the same.
            function: returns a tensor or several.
            tensors: its arguments.
        """
        device = tensors[0].device
        if len(tensors[0]) > _ROWS or torch.is_autocast_enabled(device.type):
            return function(*tensors)
        key = name, *((one.shape, one.dtype, one.device) for one in tensors)
        with self._lock:
            if key not in self._known:
                with torch.inference_mode(False):  # see `space.Space`
                    arguments = [torch.empty_like(one) for one in tensors]
                memory = GraphMemory(sum(one.nbytes for one in arguments))
                self._known[key] = arguments, Recording(device.type == "cuda", memory)
            self._known.move_to_end(key)
            arguments, recording = self._known[key]
            for mine, theirs in zip(arguments, tensors, strict=True):
                mine.copy_(theirs)
            launched = recording.graph is not None
            found = recording(lambda: function(*arguments))
            if not launched:  # its memory may have grown
                self._forget()
            return found.clone() if isinstance(found, Tensor) else tuple(one.clone() for one in found)

    def _forget(self) -> None:
        """Forget what was not used for the longest time, as long as there is too much."""
        while (len(self._known) > _KEPT
               or sum(recording.memory.size for _, recording in self._known.values()) > _KEPT_BYTES):
            self._known.popitem(last=False)


RECORDER = Recorder()
"""For functions of nothing but their arguments."""
