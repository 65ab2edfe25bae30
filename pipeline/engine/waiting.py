"""What makes the host wait for a GPU, and how to avoid it.

A host that looks at a tensor of a GPU waits until everything before it is computed, and the GPU then waits for the next
operation. A search therefore looks once per step.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engine.choice import engine_in_use


def waits(device: torch.device) -> bool:
    """Whether to look at a tensor of a device is to wait for it: on a GPU, and where `static` imitates one."""
    return device.type != "cpu" or engine_in_use() == "static"


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array on a device, without waiting for what the device computes; on a CPU it is the same memory."""
    return torch.from_numpy(array).to(device, non_blocking=True)
