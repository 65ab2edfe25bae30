"""Computations that are recorded once as a CUDA graph and then launched as one operation.

A graph reads and writes the same memory each time. A `Recording` leaves that memory to its owner; a `Recorder` has some
of its own for each function and shape, into which it copies arguments and out of which it copies results.
"""

from collections import OrderedDict
from collections.abc import Callable
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
Results = TypeVar("Results")


class Recording(Generic[Results]):
    """One computation on fixed memory. Its results are overwritten by the next one."""

    def __init__(self, records: bool) -> None:
        """Args: whether it is recorded; otherwise it is computed each time."""
        self._records = records
        self._results: Results | None = None
        self.graph: Any = None

    def __call__(self, compute: Callable[[], Results]) -> Results:
        """The results of `compute`, which is the same computation each time.

        It is not kept: it may hold a network, which holds this.
        """
        if self.graph is not None:
            self.graph.replay()
        elif self._results is None or not self._records:  # what comes up once is not worth a graph
            self._results = compute()
        else:
            graph = torch.cuda.CUDAGraph()
            with _RECORDING, torch.cuda.graph(graph, capture_error_mode="thread_local"):
                results = compute()
            self.graph, self._results = graph, results  # not before: a recording that failed must not be launched
            graph.replay()
        return self._results  # type: ignore[return-value]  # every branch above has set it


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
                    self._known[key] = [torch.empty_like(one) for one in tensors], Recording(device.type == "cuda")
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            arguments, recording = self._known[key]
            for mine, theirs in zip(arguments, tensors, strict=True):
                mine.copy_(theirs)
            found = recording(lambda: function(*arguments))
            return found.clone() if isinstance(found, Tensor) else tuple(one.clone() for one in found)


RECORDER = Recorder()
"""For functions of nothing but their arguments."""
