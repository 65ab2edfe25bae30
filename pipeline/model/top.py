"""Argmax and top-k of logits, by kernels that are quicker than torch's on a CPU and agree with them.

There `torch.argmax` and `torch.topk` compare element by element and cost more than a small model's projection. NumPy's
argmax is vectorised: for a small k, k of them are quicker than `topk`, and for a large one NumPy's partition is.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.engine.choice import engine_in_use

_FEW = 10
"""The largest k for which k passes of argmax cost less than a partition (rows of 3,000 words)."""
_SMALL = 24_000
"""The most logits for which compiled passes on one core are quicker than torch's on two."""


def best(logits: Tensor) -> Tensor:
    """The best word of every row, the lowest id where several tie: (…, V) to (…)."""
    if compiles(logits):
        return torch.from_numpy(np.asarray(logits.numpy().argmax(-1)))
    return logits.argmax(-1)


def score_best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The best word of every row as `best` finds it, and its log-probability: (…, V) to twice (…)."""
    if compiles(logits) and logits.numel() <= _SMALL:
        from pipeline.engine.best import score_best  # numba takes half a second to import
        found, scores = np.empty(logits.shape[:-1], np.int64), np.empty(logits.shape[:-1])
        score_best(logits.numpy().reshape(-1, logits.shape[-1]), found.reshape(-1), scores.reshape(-1))
        return torch.from_numpy(found), torch.from_numpy(scores)
    words = best(logits)
    return words, logits.log_softmax(-1).gather(-1, words.unsqueeze(-1)).squeeze(-1)


def best_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The scores and ids, both (R, k), of the k <= V best words of every row, best first.

    Equal scores: lowest ids first, as far as the kernel allows. The best entries of the logits (R, V) may be
    overwritten.
    """
    if not compiles(logits):
        return logits.topk(k)
    if k > _FEW:
        return _partition(logits, k)
    values = logits.numpy()
    scores, ids = np.empty((len(values), k), values.dtype), np.empty((len(values), k), np.int64)
    _pick(values, scores, ids)
    return torch.from_numpy(scores), torch.from_numpy(ids)


def best_k_and_end(logits: Tensor, k: int, end: int) -> tuple[Tensor, Tensor]:
    """The scores and ids, both (R, k + 1), of the k < V best words but the end symbol, which comes last.

    Equal scores are ordered as by `best_k`. The best entries of the logits (R, V) may be overwritten, and the end
    symbol's are.
    """
    last = logits[:, end:end + 1].clone()
    logits[:, end] = -torch.inf
    scores, ids = best_k(logits, k)
    return torch.cat((scores, last), 1), F.pad(ids, (0, 1), value=end)


def lowest(values: Tensor, counts: Tensor) -> Tensor:
    """Mark the lowest values of each row of (R, N), `counts` (R,) of them, the first of equal ones: (R, N) booleans.

    >>> lowest(torch.tensor([[0.3, 0.1, 0.3, 0.9]]), torch.tensor([2])).tolist()
    [[True, True, False, False]]
    """
    order = values.argsort(dim=1, stable=True)
    places = torch.arange(values.shape[1], device=values.device)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(1, order, places < counts.unsqueeze(1))


def _partition(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    first = logits.shape[1] - k
    some = torch.from_numpy(np.argpartition(logits.numpy(), first, axis=1)[:, first:])
    scores, order = logits.gather(1, some).sort(1, descending=True)
    return scores, some.gather(1, order)


def _pick(values: npt.NDArray[Any], scores: npt.NDArray[Any], ids: npt.NDArray[np.int64]) -> None:
    """Write the k best of (R, V) values and their columns into two arrays (R, k), column by column."""
    (R, V), flat = values.shape, np.ascontiguousarray(values).reshape(-1)
    values, first = flat.reshape(R, V), np.arange(0, R * V, V)
    for place in range(ids.shape[1]):
        at = values.argmax(1)
        ids[:, place] = at
        at += first
        scores[:, place] = flat[at]
        flat[at] = -np.inf


def compiles(logits: Tensor) -> bool:
    """Whether NumPy and compiled code should read the logits, which takes no copy."""
    return (engine_in_use() == "compiled" and logits.device.type == "cpu"
            and logits.dtype in (torch.float32, torch.float64))
