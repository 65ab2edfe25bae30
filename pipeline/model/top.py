"""The best words of each row, by kernels that are quicker than the general ones and agree with them.

On a CPU `torch.argmax` and `torch.topk` compare element by element and cost more than a small model's projection.
NumPy's argmax is vectorised: a few of them are quicker than one search for the few best, and its partition is quicker
where many are asked for.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pipeline.engine.choice import engine_in_use

_FEW = 10
"""Up to so many passes of argmax cost less than a partition (rows of 3,000 words)."""
_SMALL = 24_000
"""Numbers up to which compiled passes on one core are quicker than torch's on two."""


def best(logits: Tensor) -> Tensor:
    """The best word of every row, the lowest id where several tie: (…, V) to (…)."""
    if compiles(logits):
        return torch.from_numpy(np.asarray(logits.numpy().argmax(-1)))
    return logits.argmax(-1)


def score_best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The best word of every row as `best` finds it, and its log-probability: (…, V) to twice (…)."""
    if compiles(logits) and logits.numel() <= _SMALL:
        from pipeline.engine.best import score_best  # numba: half a second that training does not need
        found, scores = np.empty(logits.shape[:-1], np.int64), np.empty(logits.shape[:-1])
        score_best(logits.numpy().reshape(-1, logits.shape[-1]), found.reshape(-1), scores.reshape(-1))
        return torch.from_numpy(found), torch.from_numpy(scores)
    words = best(logits)
    return words, logits.log_softmax(-1).gather(-1, words.unsqueeze(-1)).squeeze(-1)


def best_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best words of every row in falling order, lowest ids first where several tie, as far as the kernel allows.

    Args:
        logits: (R, V); the best places may be overwritten.
        k: at most V.

    Returns:
        Scores and ids, both (R, k).
    """
    if not compiles(logits):
        return logits.topk(k)
    if k > _FEW:
        return _partition(logits, k)
    values = logits.numpy()
    scores, ids = np.empty((len(values), k), values.dtype), np.empty((len(values), k), np.int64)
    _pick(values, scores, ids)
    return torch.from_numpy(scores), torch.from_numpy(ids)


def best_words(logits: Tensor, k: int, end: int) -> tuple[Tensor, Tensor]:
    """The k best words of every row as in `best_k`, and in the last place the end symbol, which is not among them.

    Args:
        logits: (R, V); the best places may be overwritten, and the end symbol's are.
        k: less than V.
        end: the end symbol.

    Returns:
        Scores and ids, both (R, k + 1).
    """
    if k > _FEW or not compiles(logits):
        last = logits[:, end:end + 1].clone()
        logits[:, end] = -torch.inf
        words, found = best_k(logits, k)
        return torch.cat((words, last), 1), torch.nn.functional.pad(found, (0, 1), value=end)
    values = logits.numpy()
    scores, ids = np.empty((len(values), k + 1), values.dtype), np.empty((len(values), k + 1), np.int64)
    scores[:, k], ids[:, k] = values[:, end], end
    values[:, end] = -np.inf
    _pick(values, scores[:, :k], ids[:, :k])
    return torch.from_numpy(scores), torch.from_numpy(ids)


def _partition(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    first = logits.shape[1] - k
    some = torch.from_numpy(np.argpartition(logits.numpy(), first, axis=1)[:, first:])
    scores, order = logits.gather(1, some).sort(1, descending=True)
    return scores, some.gather(1, order)


def _pick(values: npt.NDArray[Any], scores: npt.NDArray[Any], ids: npt.NDArray[np.int64]) -> None:
    """Write the best of (R, V) values and their columns into two arrays (R, k), one column after the other."""
    (R, V), flat = values.shape, np.ascontiguousarray(values).reshape(-1)
    values, first = flat.reshape(R, V), np.arange(0, R * V, V)
    for place in range(ids.shape[1]):
        at = values.argmax(1)
        ids[:, place] = at
        at += first
        scores[:, place] = flat[at]
        flat[at] = -np.inf


def compiles(logits: Tensor) -> bool:
    """Whether NumPy and compiled code can read them, without a copy, and are to."""
    return (engine_in_use() == "compiled" and logits.device.type == "cpu"
            and logits.dtype in (torch.float32, torch.float64))
