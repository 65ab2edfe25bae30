"""The best words of each row, by kernels that are quicker than the general ones and agree with them.

On a CPU `torch.argmax` and `torch.topk` compare element by element and cost more than a small model's projection;
NumPy's argmax is vectorised, and k of them are still quicker than one general search for the k best.
"""

import numpy as np
import torch
from torch import Tensor


def best(logits: Tensor) -> Tensor:
    """The best word of every row, the lowest id where several tie: (…, V) to (…)."""
    if _on_cpu(logits):
        return torch.from_numpy(np.asarray(logits.numpy().argmax(-1)))
    return logits.argmax(-1)


def best_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best words of every row in falling order, lowest ids first where several tie, as far as the kernel allows.

    Args:
        logits: (R, V), unchanged.
        k: at most V.

    Returns:
        Scores and ids, both (R, k).
    """
    if not _on_cpu(logits):
        return logits.topk(k)
    values, rows = logits.numpy(), np.arange(len(logits))
    scores, ids = np.empty((len(rows), k), values.dtype), np.empty((len(rows), k), np.int64)
    for place in range(k):
        at = values.argmax(1)
        ids[:, place], scores[:, place] = at, values[rows, at]
        values[rows, at] = -np.inf
    values[rows[:, None], ids] = scores
    return torch.from_numpy(scores), torch.from_numpy(ids)


def _on_cpu(logits: Tensor) -> bool:
    return logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64)
