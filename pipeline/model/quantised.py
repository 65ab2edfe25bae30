"""Networks whose linear maps are computed with integers of 8 bits: a model of its own, with the same parameters.

A matrix is rounded column by column, the rows that it multiplies row by row, each to multiples of a 127th of its
largest number. The sums of products of integers are exact in any order, so torch and the engine compute the same map
from the same rows, on every processor. The rules of rounding are those of `pipeline.engine.packing` (matrices) and
`pipeline.engine.rounding` (rows).
"""

import copy
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from pipeline.errors import PipelineError

FORMATS = "float32", "int8"
"""In which a model may be searched: with its own parameters, and quantised."""
_LIMIT = 127
_EXACTLY = 2**24 // _LIMIT**2
"""Products of two integers whose sum float32 holds exactly."""

_quantised: "WeakKeyDictionary[nn.Module, tuple[int, Any]]" = WeakKeyDictionary()


def in_format(model: Any, quantization: str) -> Any:
    """The model that a search with this `quantization`, one of `FORMATS`, reads; see `quantised` for its errors."""
    return quantised(model) if quantization == "int8" else model


def quantised(model: Any) -> Any:
    """A model with the same verbs and parameters whose linear maps are computed with integers of 8 bits.

    Embeddings, normalisations and attention itself are not rounded. The copy is made once, and again when the model's
    parameters may have changed.

    Args:
        model: a network of this package (`linear_maps`), opened or not, or a model around one (`with_opened`).

    Raises:
        PipelineError: the model computes with layers of another library.
    """
    if hasattr(type(model), "with_opened"):
        return model.with_opened(quantised)
    if not hasattr(type(model), "linear_maps"):
        raise PipelineError("quantization: int8 is for networks with the layers of this package, and this model's are "
                            "of another library; choose a decoder without quantization")
    generation, found = _quantised.get(model, (None, None))
    if found is None or generation != model.generation:
        found = _copied(model)
        _quantised[model] = model.generation, found
    return found


def _copied(module: Any) -> Any:
    """A copy that shares all parameters, with rounded linear maps."""
    copied = copy.copy(module)
    if hasattr(type(module), "linear_maps"):
        copied.quantised = True
    # What the engine has opened is found before the submodule of its name.
    copied._modules = {name: child if child is None else _copied(vars(copied).pop(name, child))
                       for name, child in module._modules.items()}
    if hasattr(type(module), "linear_maps"):
        for name in module.linear_maps():
            copied.get_submodule(name).__class__ = RoundedLinear
        copied.clear_caches()
    return copied


class RoundedLinear(nn.Linear):
    """A linear map of rows rounded to 8 bits by a matrix rounded to 8 bits, for search: it has no gradient."""

    _rounded: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x (…, K) to (…, N), computed in float32 where x has fewer bits."""
        (weight, scale), rows = self._weights(), _widened(x)
        limit = rows.new_tensor(_LIMIT)  # a GPU multiplies by the reciprocal of a Python number
        highest = rows.abs().amax(-1, keepdim=True).clamp(min=1e-30)
        rounded = (rows * (limit / highest)).round()
        sums = [part @ columns for part, columns in zip(rounded.split(_EXACTLY, -1), weight.split(_EXACTLY),
                                                        strict=True)]
        total = sums[0] if len(sums) == 1 else torch.stack(sums).sum(0, dtype=torch.float64).to(rows.dtype)
        y = total * (scale * (highest / limit))
        return (y if self.bias is None else y + self.bias).to(x.dtype)

    def _weights(self) -> tuple[Tensor, Tensor]:
        """The integers of the matrix (K, N), and the factor of each column, (N,)."""
        if self._rounded is None:
            weight = _widened(self.weight.detach())
            scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-9) / weight.new_tensor(_LIMIT)
            self._rounded = (weight / scale).round().t(), scale.squeeze(1)
        return self._rounded


def linear(weight: Tensor, bias: Tensor, rounded: bool) -> nn.Linear:
    """The linear map of a matrix (N, K) and a bias (N,), rounded or exact."""
    made = (RoundedLinear if rounded else nn.Linear)(weight.shape[1], weight.shape[0], device="meta")
    made.weight, made.bias = nn.Parameter(weight, requires_grad=False), nn.Parameter(bias, requires_grad=False)
    return made


def _widened(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
