"""How much memory does a search take at its peak? (Table 16 of the paper.)

One sentence at a time. On a GPU it is what the allocator says. On a CPU, whose allocator keeps no peak, the tensors
that are alive at the same time are added up, call by call; what a kernel takes and gives back within one call is not in
it. Nor is, on either, what Python, PyTorch and a driver take for themselves.
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.rows import Name
from pipeline.evaluation.speed import Contestant

_MIB = 1 << 20


class Peak(NamedTuple):
    """Bytes."""

    weights: int
    search: int
    """Above the weights, the most over all sentences."""


class LiveTensors(TorchDispatchMode):
    """Adds up the storages that calls hand out, from the moment it is switched on, until they are freed.

    A storage that a call was given, such as a weight's, was there before: it and its views count nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        """That are alive."""
        self.peak = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in _tensors((args, kwargs)):
            self._known.add(tensor.untyped_storage())
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            if storage not in self._known:
                self._known.add(storage)
                self.bytes += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        self.peak = max(self.peak, self.bytes)
        return result

    def _free(self, size: int) -> None:
        self.bytes -= size


def draft_memory(searches: Sequence[tuple[Contestant, nn.Module]], sentences: Sequence[Tensor],
                 device: torch.device) -> Finding:
    """Compare peaks.

    Args:
        searches: of one network each.
        sentences: (1, S) ids each, on the device; the longest matter.
        device: that the networks are on.
    """
    peaks = {(search.family, search.decoder): Peak(weight_bytes(network), search_bytes(search, sentences, device))
             for search, network in searches}
    metric: dict[str, Any] = {"sentences": len(sentences), "device": device.type}
    for (family, decoder), peak in peaks.items():
        metric.setdefault(family, {})[decoder] = {
            "weight_bytes": peak.weights, "search_peak_bytes": peak.search, "peak_bytes": sum(peak)}
    return Finding(metric, _draw(peaks, device))


def weight_bytes(network: nn.Module) -> int:
    """Of all its parameters, tied ones once, a drafter's verifier included."""
    return sum(parameter.nbytes for parameter in network.parameters())


@torch.inference_mode()
def search_bytes(search: Contestant, sentences: Sequence[Tensor], device: torch.device) -> int:
    """The most bytes that a search holds at once for any of the sentences, results included, the source not."""
    search.translate(sentences[0])  # what is gathered once is not the search's
    return max(_cuda_peak(search, one, device) if device.type == "cuda" else _tensor_peak(search, one)
               for one in sentences)


def _tensor_peak(search: Contestant, sentence: Tensor) -> int:
    with LiveTensors() as live:
        search.translate(sentence)
    return live.peak


def _cuda_peak(search: Contestant, sentence: Tensor, device: torch.device) -> int:
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    search.translate(sentence)
    return torch.cuda.max_memory_allocated(device) - before


def _tensors(values: Any) -> Iterator[Tensor]:
    """All tensors of a call's arguments or results, however nested."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        yield from _tensors(tuple(values.values()))


def _draw(peaks: Mapping[Name, Peak], device: torch.device) -> Figure:
    figure, (weights, search) = chart.new_picture(2)
    names = [" ".join(name) for name in peaks]
    for axes, values, title in ((weights, [peak.weights for peak in peaks.values()], "weights"),
                                (search, [peak.search for peak in peaks.values()], "search, at its peak")):
        drawn = axes.barh(names, [value / _MIB for value in values], height=0.55, color=chart.COLOURS[0])
        axes.bar_label(drawn, fmt="%.2f", fontsize=8, color=chart.THEME.muted, padding=2)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.18)
        chart.name_axes(axes, "MiB", "", title)
    search.tick_params(labelleft=False)
    figure.suptitle(f"one sentence at a time, {device.type}", fontsize=10, color=chart.THEME.ink)
    return figure
