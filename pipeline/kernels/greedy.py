"""The best tokens of one sentence, one after the other, compiled whole: nothing returns to Python between them."""

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.kernels.best import best_of, log_sum
from pipeline.kernels.decoder import step
from pipeline.kernels.reading import Floats, Reading

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def finish(starts: Ints, end: int, said: Ints, reading: Reading) -> tuple[int, float]:
    """Read tokens, say the best ones behind them, read these, and so on up to an end symbol: greedy search.

    Args:
        starts: (z,), the tokens to read first; nothing has been read before them.
        end: the end symbol.
        said: (T >= 1, z), where the tokens are written, end symbols included; at most so many steps are taken.
        reading: the decoder, of one row.

    Returns:
        Steps taken, and the summed log-probability of what was said.

    Raises:
        IndexError: there are more tokens than places.
    """
    packed, z = reading.packed, len(starts)
    D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
    tokens, lengths = starts.reshape(1, z).copy(), np.empty(1, np.int64)
    hidden, logits = np.empty((1, z, D), number), np.empty((1, z, V), number)
    total = 0.0
    for now in range(len(said)):
        lengths[0] = now * z
        if not step(tokens, lengths, reading, hidden, logits):
            raise IndexError("more tokens than the decoder has places for")
        ends = 0
        for i in range(z):
            best = best_of(logits[0, i])
            ends += best == end
            tokens[0, i] = best
            total += logits[0, i, best] - log_sum(logits[0, i], logits[0, i, best])
        if 0 < ends < z:
            total += _end_well(logits[0], tokens[0], end)
        said[now] = tokens[0]
        if tokens[0, z - 1] == end:  # behind an end symbol there is nothing else
            return now + 1, total
    return len(said), total


@njit(cache=True, nogil=True)
def _end_well(logits: Floats, words: Ints, end: int) -> float:
    """Mend a step with a word behind an end symbol: `greedy._best_ending`.

    Args:
        logits: (z, V); those of the end symbol are overwritten.
        words: (z,), the best of every slot; changed.
        end: the end symbol.

    Returns:
        By how much the changes change the step's log-probability.
    """
    z, first = len(words), 0
    while words[first] != end:
        first += 1
    torn = False
    for i in range(first, z):
        torn |= words[i] != end
    if not torn:
        return 0.0
    # Of every slot the best word and the end symbol, over the slot's best of all.
    going, ending, ids = np.empty(z), np.empty(z), np.empty(z, np.int64)
    for i in range(z):
        highest = logits[i, words[i]]
        ending[i] = logits[i, end] - highest
        logits[i, end] = -np.inf
        ids[i] = best_of(logits[i])
        going[i] = logits[i, ids[i]] - highest
    kept, best = 0, -np.inf
    for j in range(z + 1):
        way = going[:j].sum() + ending[j:].sum()
        if way > best:
            kept, best = j, way
    words[:kept], words[kept:] = ids[:kept], end
    return best


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
