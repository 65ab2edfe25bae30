"""The best tokens of one sentence, one after the other, compiled whole: nothing returns to Python between them."""

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.kernels.best import best_of, log_sum
from pipeline.kernels.decoder import step
from pipeline.kernels.reading import Reading

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def finish(first: int, end: int, said: Ints, reading: Reading) -> tuple[int, float]:
    """Read a token, say the best one behind it, read that, and so on up to the end symbol: greedy search.

    Args:
        first: the token to read first; nothing has been read before it.
        end: the end symbol.
        said: (T >= 1,), where the tokens are written, the end symbol included; at most so many are said.
        reading: the decoder, of one row.

    Returns:
        How many tokens were said, and their summed log-probability.

    Raises:
        IndexError: there are more than places.
    """
    packed = reading.packed
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    token, lengths = np.empty((1, 1), np.int64), np.empty(1, np.int64)
    hidden, logits = np.empty((1, 1, D), number), np.empty((1, 1, V), number)
    token[0, 0], total = first, 0.0
    for i in range(len(said)):
        lengths[0] = i
        if not step(token, lengths, reading, hidden, logits):
            raise IndexError("more tokens than the decoder has places for")
        row = logits[0, 0]
        best = best_of(row)
        total += row[best] - log_sum(row, row[best])
        said[i] = token[0, 0] = best
        if best == end:
            return i + 1, total
    return len(said), total


@njit(cache=True, nogil=True)
def run_ahead(known: Ints, said: Ints, length: int, reading: Reading) -> None:
    """Read tokens and write the best ones behind them into `said`, each of which but the last is read in turn.

    Args:
        known: (n >= 1,) tokens to read first.
        said: (k >= 1,).
        length: tokens that have been read.
        reading: the decoder, of one row.
    """
    packed = reading.packed
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    lengths, logits = np.full(1, length), np.empty((1, 1, V), number)
    step(known.reshape(1, -1), lengths, reading, np.empty((1, len(known), D), number), logits)
    said[0] = best_of(logits[0, 0])
    token, hidden = np.empty((1, 1), np.int64), np.empty((1, 1, D), number)
    for i in range(1, len(said)):
        token[0, 0], lengths[0] = said[i - 1], length + len(known) + i - 1
        step(token, lengths, reading, hidden, logits)
        said[i] = best_of(logits[0, 0])
