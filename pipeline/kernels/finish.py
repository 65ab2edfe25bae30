"""Greedy search of one sentence from a prefix to its end, compiled whole: nothing returns to Python between tokens."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.kernels.best import best_of, log_sum
from pipeline.kernels.decoder import step
from pipeline.kernels.matrix import Matrix

Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def finish(first: int, end: int, said: Ints, matrices: Matrix, vectors: Floats, embeddings: Floats, positions: Floats,
           norm: Floats, outputs: Matrix, output_scale: Floats, output_bias: Floats, past: Floats, source: Floats,
           length: int, mask: Bools, source_mask: Bools, pre: bool, relu: bool, hidden: Floats) -> tuple[int, float]:
    """Read a token, say the best one behind it, read that, and so on up to the end symbol.

    Args:
        first: the token to read first.
        end: the end symbol.
        said: (T >= 1,), where the tokens are written, the end symbol included; at most so many are said.
        matrices, vectors, embeddings, positions, norm, outputs, output_scale, output_bias: a `lean.Packed`.
        past, source, mask, source_mask, pre, relu: see `decoder.step`.
        length: tokens in the past.
        hidden: (1, 1, D), where the decoder's last state is written.

    Returns:
        How many tokens were said, 0 where one of them had no place, and their summed log-probability.
    """
    token, lengths = np.empty((1, 1), np.int64), np.empty(1, np.int64)
    logits = np.empty((1, 1, len(output_scale)), vectors.dtype)
    token[0, 0], total = first, 0.0
    for i in range(len(said)):
        lengths[0] = length + i
        if not step(token, matrices, vectors, embeddings, positions, norm, outputs, output_scale, output_bias, past,
                    source, lengths, mask, source_mask, pre, relu, hidden, logits):
            return 0, total
        row = logits[0, 0]
        best = best_of(row)
        total += row[best] - log_sum(row, row[best])
        said[i] = token[0, 0] = best
        if best == end:
            return i + 1, total
    return len(said), total
