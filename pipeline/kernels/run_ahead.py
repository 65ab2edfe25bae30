"""A small model's greedy continuation of one sentence, compiled whole: nothing returns to Python between tokens."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.kernels.best import best_of
from pipeline.kernels.decoder import step
from pipeline.kernels.matrix import Matrix

Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def run_ahead(known: Ints, said: Ints, matrices: Matrix, vectors: Floats, embeddings: Floats, positions: Floats,
              norm: Floats, outputs: Matrix, output_scale: Floats, output_bias: Floats, past: Floats, source: Floats,
              length: int, source_mask: Bools, pre: bool, relu: bool) -> None:
    """Read tokens and write the best ones behind them into `said`, each of which but the last is read in turn.

    Args:
        known: (n >= 1,) tokens to read first.
        said: (k >= 1,).
        matrices, vectors, embeddings, positions, norm, outputs, output_scale, output_bias: a `lean.Packed`.
        past, source, source_mask, pre, relu: see `decoder.decode`.
        length: tokens in the past.
    """
    D, V = outputs.shape
    token, lengths = np.empty((1, 1), np.int64), np.empty(1, np.int64)
    hidden, logits = np.empty((1, 1, D), vectors.dtype), np.empty((1, 1, V), vectors.dtype)
    everything = np.zeros((0, 1, 0), np.bool_)
    n, best, nothing = len(known), 0, logits[:0]
    for i in range(n + len(said) - 1):
        token[0, 0], lengths[0] = known[i] if i < n else best, length + i
        step(token, matrices, vectors, embeddings, positions, norm, outputs, output_scale, output_bias, past, source,
             lengths, everything, source_mask, pre, relu, hidden, nothing if i + 1 < n else logits)
        if i + 1 >= n:
            best = best_of(logits[0, 0])
            said[i + 1 - n] = best
