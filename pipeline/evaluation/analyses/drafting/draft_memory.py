"""How much memory does a search take at its peak? (Table 16 of the paper.)

One sentence at a time. On a GPU it is the allocator's peak. On a CPU, whose allocator records no peak, the tensors that
are alive at the same time are added up, call by call, with what numpy allocates meanwhile, and the objects of Python, a
few KiB that differ from run to run. What a kernel or a compiled loop allocates and frees within one call is not
counted; on neither is the memory of Python, PyTorch and the driver themselves.
"""

import tracemalloc
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.drafting.context import DraftingContext, no_entries
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.rows import Name
from pipeline.evaluation.speed import Contestant

_MIB = 1 << 20
_LONGEST = 2
"""Sentences, the longest, whose peak memory is measured."""


class Peak(NamedTuple):
    """Peak memory in bytes."""

    weights: int
    search: int
    """The maximum over all sentences, weights not included."""


class LiveMemory(TorchDispatchMode):
    """Adds up the storages that calls return while the mode is on, until they are freed, and arrays of numpy.

    A storage that a call receives, such as a weight's or an array's, existed before: neither it nor its views are
    counted again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        """Those of the storages that are alive."""
        self._peak = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __enter__(self) -> "LiveMemory":
        tracemalloc.start()  # numpy's arrays are among what Python allocates
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._take()
        tracemalloc.stop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._known.update(_storages((args, kwargs)))
        self._take()
        result = func(*args, **(kwargs or {}))
        for storage in _storages(result):
            if storage not in self._known:
                self._known.add(storage)
                self.bytes += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        self._take()
        return result

    @property
    def peak(self) -> int:
        """The most bytes at once."""
        return self._peak

    def _take(self) -> None:
        """Compare with the peak what was alive at most since this was last called."""
        self._peak = max(self._peak, self.bytes + tracemalloc.get_traced_memory()[1])
        tracemalloc.reset_peak()

    def _free(self, size: int) -> None:
        self.bytes -= size


def ask(context: DraftingContext) -> Finding:
    """Of the entries and what they are compared with, over the longest sentences of the test split."""
    if not context.entries:
        return no_entries()
    longest = sorted(context.run.sources(), key=len)[-_LONGEST:]
    return draft_memory([(one.contestant, one.network) for one in context.references + context.entries],
                        [context.pad([source]) for source in longest], context.run.device)


def draft_memory(searches: Sequence[tuple[Contestant, nn.Module]], sentences: Sequence[Tensor],
                 device: torch.device) -> Finding:
    """Compare peaks.

    Args:
        searches: each with its network.
        sentences: (1, S) ids each, on the device.
        device: of the networks.
    """
    peaks = {(search.family, search.decoder): Peak(weight_bytes(network), search_bytes(search, sentences, device))
             for search, network in searches}
    metric: dict[str, Any] = {"sentences": len(sentences), "device": device.type}
    for (family, decoder), peak in peaks.items():
        metric.setdefault(family, {})[decoder] = {
            "weight_bytes": peak.weights, "search_peak_bytes": peak.search, "peak_bytes": sum(peak)}
    return Finding(metric, _draw(peaks, device))


def weight_bytes(network: nn.Module) -> int:
    """Bytes of all parameters, tied ones once, a drafter's verifier included."""
    return sum(parameter.nbytes for parameter in network.parameters())


@torch.inference_mode()
def search_bytes(search: Contestant, sentences: Sequence[Tensor], device: torch.device) -> int:
    """The most bytes that a search uses at once for any of the sentences, results included, the source not."""
    # All twice: what is imported, compiled and kept once per model or length is not the search's.
    peaks = [_cuda_peak(search, one, device) if device.type == "cuda" else _tensor_peak(search, one)
             for one in (*sentences, *sentences)]
    return max(peaks[len(sentences):])


def _tensor_peak(search: Contestant, sentence: Tensor) -> int:
    with LiveMemory() as live:
        search.translate(sentence)
    return live.peak


def _cuda_peak(search: Contestant, sentence: Tensor, device: torch.device) -> int:
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    search.translate(sentence)
    return torch.cuda.max_memory_allocated(device) - before


def _storages(values: Any) -> list[torch.UntypedStorage]:
    """Those of all tensors of a call's arguments or results, however nested."""
    return [value.untyped_storage() for value in tree_leaves(values) if isinstance(value, Tensor)]


def _draw(peaks: Mapping[Name, Peak], device: torch.device) -> Figure:
    figure, (weights, search) = chart.new_picture(2)
    names = [" ".join(name) for name in peaks]
    for axes, sizes, title in ((weights, [peak.weights for peak in peaks.values()], "weights"),
                               (search, [peak.search for peak in peaks.values()], "search, at its peak")):
        chart.bars(axes, {name: size / _MIB for name, size in zip(names, sizes, strict=True)}, chart.COLOURS[:1])
        chart.name_axes(axes, "MiB", "", title)
    search.tick_params(labelleft=False)
    figure.suptitle(f"one sentence at a time, {device.type}", fontsize=10, color=chart.THEME.ink)
    return figure
