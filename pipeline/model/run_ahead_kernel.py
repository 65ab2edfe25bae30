"""A small model's greedy continuation of one sentence, compiled whole: nothing returns to Python between tokens."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from pipeline.model.lean_kernel import decode, normalise
from pipeline.model.matrix_kernel import Bytes, multiply_bytes

Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def run_ahead(known: Ints, said: Ints, table: Floats, positions: Floats, norm: Floats, outputs: Bytes, scale: Floats,
              layers: Floats, past: Floats, source: Floats, length: int, source_mask: Bools, pre: bool,
              relu: bool) -> None:
    """Read tokens and write the best ones behind them into `said`, each of which but the last is read in turn.

    Args:
        known: (n >= 1,) tokens to read first.
        said: (k >= 1,).
        table: (V, D), scaled embeddings.
        positions: (T, D), from the first place on.
        norm: (2, D), weight and bias of the final normalisation, where `pre`.
        outputs, scale: (D, V) and (V,), whose product is the projection.
        layers, past, source, source_mask, pre, relu: see `lean_kernel.decode`.
        length: tokens in the past.
    """
    D, V = outputs.shape
    x, lengths = np.empty((1, 1, D), table.dtype), np.empty(1, np.int64)
    last, logits = np.empty((1, D), table.dtype), np.empty(V, table.dtype)
    everything = np.zeros((0, 1, 0), np.bool_)
    n, token = len(known), known[0]
    for step in range(n + len(said) - 1):
        lengths[0] = length + step
        for d in range(D):
            x[0, 0, d] = table[token, d] + positions[length + step, d]
        decode(x, layers, past, source, lengths, everything, source_mask, pre, relu)
        if step + 1 < n:
            token = known[step + 1]
            continue
        normalise(x.reshape(1, D), norm, pre, last)
        multiply_bytes(last[0], outputs, scale, logits)
        token = 0
        for word in range(1, V):
            if logits[word] > logits[token]:
                token = word
        said[step + 1 - n] = token
