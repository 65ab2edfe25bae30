"""A small model's greedy continuation of one sentence, compiled whole: nothing returns to Python between tokens."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from pipeline.model.lean_kernel import advance
from pipeline.model.matrix_kernel import Bytes, multiply_bytes
from pipeline.model.top_kernel import best_of

Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def run_ahead(known: Ints, said: Ints, embeddings: Floats, positions: Floats, norm: Floats, outputs: Bytes,
              scale: Floats, layers: Floats, past: Floats, source: Floats, length: int, source_mask: Bools, pre: bool,
              relu: bool) -> None:
    """Read tokens and write the best ones behind them into `said`, each of which but the last is read in turn.

    Args:
        known: (n >= 1,) tokens to read first.
        said: (k >= 1,).
        outputs, scale: (D, V) and (V,), whose product is the projection.
        embeddings, positions, norm, layers, past, source, source_mask, pre, relu: see `lean_kernel.advance`.
        length: tokens in the past.
    """
    D, V = outputs.shape
    token, lengths = np.empty((1, 1), np.int64), np.empty(1, np.int64)
    hidden, logits = np.empty((1, 1, D), embeddings.dtype), np.empty(V, embeddings.dtype)
    everything = np.zeros((0, 1, 0), np.bool_)
    n, best = len(known), 0
    for step in range(n + len(said) - 1):
        token[0, 0], lengths[0] = known[step] if step < n else best, length + step
        advance(token, embeddings, positions, norm, layers, past, source, lengths, everything, source_mask, pre, relu,
                hidden)
        if step + 1 < n:
            continue
        multiply_bytes(hidden[0, 0], outputs, scale, logits)
        best = best_of(logits)
        said[step + 1 - n] = best
