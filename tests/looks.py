"""How often a host looks at tensors: on a GPU each look waits until everything before it is computed."""

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_LOOKS = frozenset({"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "cpu",
                    "nonzero", "masked_select", "unique", "equal"})
"""Functions whose result, or the size of it, the host must know."""


class Looks(TorchFunctionMode):
    """Counts the looks inside a `with` block, by the place in the package that looks."""

    def __init__(self) -> None:
        super().__init__()
        self.places = Counter[str]()

    def __torch_function__(self, function: Callable[..., Any], types: Sequence[type], arguments: Sequence[Any] = (),
                           named: Mapping[str, Any] | None = None) -> Any:
        name = getattr(function, "__name__", "")
        by_mask = name in ("__getitem__", "__setitem__") and any(
            isinstance(one, Tensor) and one.dtype == torch.bool
            for one in (arguments[1] if isinstance(arguments[1], tuple) else arguments[1:2]))
        if name in _LOOKS or by_mask:
            inner = [frame for frame in traceback.extract_stack() if "/pipeline/" in frame.filename]
            if inner:
                self.places[f"{inner[-1].filename.split('/pipeline/')[-1]}:{inner[-1].lineno} {name}"] += 1
        return function(*arguments, **dict(named or {}))

    @property
    def total(self) -> int:
        return self.places.total()
