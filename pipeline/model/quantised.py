"""Networks whose linear maps are computed with integers of 8 bits: a model of its own, with the same parameters.

A matrix is rounded column by column, the rows that it multiplies row by row, each to multiples of a 127th of its
largest number. The sums of products of integers are exact in any order, so torch and the engine compute the same map
from the same rows, on every processor. The rules of rounding are those of `pipeline.engine.packing` (matrices) and
`pipeline.engine.rounding` (rows).
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

_LIMIT = 127
_EXACTLY = 2**24 // _LIMIT**2
"""Products of two integers whose sum float32 holds exactly."""

def quantised(module: Any) -> Any:
    """A copy of a network that shares all parameters, whose linear maps are computed with integers of 8 bits.

    Embeddings, normalisations and attention itself are not rounded.
    """
    copied = copy.copy(module)
    if hasattr(type(module), "linear_maps"):
        copied.quantised = True
    # What the engine has opened is found before the submodule of its name.
    copied._modules = {name: child if child is None else quantised(vars(copied).pop(name, child))
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
        limit = rows.new_full((), _LIMIT)  # a GPU multiplies by the reciprocal of a Python number
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
            scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-9) / weight.new_full((), _LIMIT)
            self._rounded = (weight / scale).round().t(), scale.squeeze(1)
        return self._rounded


def linear(weight: Tensor, bias: Tensor | None, rounded: bool) -> nn.Linear:
    """The linear map of a matrix (N, K) and a bias (N,), rounded or exact."""
    made = (RoundedLinear if rounded else nn.Linear)(weight.shape[1], weight.shape[0], bias=bias is not None,
                                                     device="meta")
    made.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        made.bias = nn.Parameter(bias, requires_grad=False)
    return made


def _widened(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
