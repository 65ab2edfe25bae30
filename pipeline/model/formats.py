"""The formats in which a model may be searched: each a model of its own, made of the same parameters."""

import copy
from functools import partial
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from pipeline.errors import PipelineError
from pipeline.model.quantised import quantised

COMPILED = "float32", "int8"
"""Its own parameters, and rounded linear maps (`quantised`): the engine compiles both."""
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""Everything in two bytes, for GPUs: on a CPU torch computes it, slowly."""
FORMATS = (*COMPILED, *HALVES)

_made: "WeakKeyDictionary[nn.Module, dict[str, tuple[int, Any]]]" = WeakKeyDictionary()
"""Of each network, by format: the network's generation, and the model."""
_making = RLock()
"""So that of several first searches one makes the model, and the others wait for it."""


def in_format(model: Any, quantization: str) -> Any:
    """The model that a search with this `quantization`, one of `FORMATS`, reads.

    It is made once, and again when the model's parameters may have changed.

    Raises:
        PipelineError: the model computes with layers of another library, and another format than its own is asked for.
    """
    if quantization == COMPILED[0]:
        return model
    if hasattr(type(model), "with_opened"):
        return model.with_opened(partial(in_format, quantization=quantization))
    if not hasattr(type(model), "linear_maps"):
        raise PipelineError(f"quantization: {quantization} is for networks with the layers of this package, and this "
                            "model's are of another library; choose a decoder without quantization")
    with _making:
        known = _made.setdefault(model, {})
        if quantization not in known or known[quantization][0] != model.generation:
            made = _in_half(model, HALVES[quantization], {}) if quantization in HALVES else quantised(model)
            known[quantization] = model.generation, made
        return known[quantization][1]


def _in_half(module: Any, dtype: torch.dtype, made: dict[int, Tensor]) -> Any:
    """A copy of a module whose parameters and buffers have another type where they are not whole numbers.

    `made` holds those that were converted, by their ids: modules may share them.
    """
    def converted(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or not tensor.is_floating_point():
            return tensor
        if id(tensor) not in made:
            other = tensor.detach().to(dtype)
            made[id(tensor)] = nn.Parameter(other, requires_grad=False) if isinstance(tensor, nn.Parameter) else other
        return made[id(tensor)]

    copied = copy.copy(module)
    copied._parameters = {name: converted(tensor) for name, tensor in module._parameters.items()}
    copied._buffers = {name: converted(tensor) for name, tensor in module._buffers.items()}
    # What the engine has opened is found before the submodule of its name.
    copied._modules = {name: child if child is None else _in_half(vars(copied).pop(name, child), dtype, made)
                       for name, child in module._modules.items()}
    if hasattr(type(module), "clear_caches"):
        copied.clear_caches()
    return copied
