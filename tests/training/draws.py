"""Draws that are the same for every sentence of every batch, so that shares of a batch can be compared with the whole.

No import of the pipeline: processes that tests start read this first.
"""

from collections.abc import Callable

import torch

ALIKE: dict[str, Callable[..., torch.Tensor]] = {
    "rand": lambda *shape, **_: torch.full(shape, 0.4),
    "randint": lambda high, shape: torch.zeros(shape, dtype=torch.long),
}
"""What to put in the place of torch's functions of these names."""
