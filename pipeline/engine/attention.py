"""Attention of queries to the keys and values of their rows, compiled."""

import math

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.best import exponential
from pipeline.engine.by_address import by_address
from pipeline.engine.reading import Bools, Floats, Ints, Seen

_SUM = {"contract", "nsz", "reassoc"}  # the order of a sum depends only on its length


@by_address
@njit(cache=True, nogil=True, error_model="numpy")
def attend_rows(first: int, last: int, queries: Floats, seen: Seen, out: Floats) -> None:
    """Write the attention of some of M queries, from `first` to before `last`.

    Args:
        queries: (M, Q), each in the first D numbers; M is a multiple of R, and neighbours share a row.
        seen: what they attend to.
        out: (M, D).
    """
    keys, values, mask, places = seen.keys, seen.values, seen.mask, seen.places
    per, D = len(queries) // len(seen.own), out.shape[1]
    weights = np.empty(keys.shape[2], queries.dtype)
    for m in range(first, last):
        r = m // per
        own, count = seen.own[r], seen.counts[r]
        visible = mask[r % len(mask), (places[r] + m % per) % mask.shape[1]] if len(mask) else mask.reshape(-1)
        if len(seen.origins):
            _attend(queries[m, :D], keys, values, own, seen.origins[r], count, visible, weights, out[m])
        else:
            _attend(queries[m, :D], keys, values, own, None, count, visible, weights, out[m])


@njit(cache=True, nogil=True)
def _origin(origins: Ints | None, own: int, t: int) -> int:
    """The row that has token t. Compiled without origins it is known before a loop begins, which is then faster."""
    if origins is None:
        return own
    return origins[t]


@njit(cache=True, nogil=True)
def _four_origins(origins: Ints | None, own: int, t: int) -> tuple[int, int, int, int]:
    """The rows that have token t and the three after it."""
    return (_origin(origins, own, t), _origin(origins, own, t + 1), _origin(origins, own, t + 2),
            _origin(origins, own, t + 3))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUM)
def _attend(query: Floats, keys: Floats, values: Floats, own: int, origins: Ints | None, count: int, visible: Bools,
            weights: Floats, out: Floats) -> None:
    """Write into out (D,) the attention of a query (D,) to the first `count` tokens of a row.

    It takes four keys at a time, so that the query and the output are read and written a quarter as often.

    Args:
        keys, values, own: see `Seen`.
        origins: (T,), where the tokens are; None: in the row's own.
        visible: (count,), which of them the query may see, at least one; empty: all.
        weights: at least `count` numbers, overwritten.
    """
    _, heads, _, depth = keys.shape
    scale, zero = query.dtype.type(1 / math.sqrt(depth)), query.dtype.type(0)
    seen = count
    if len(visible):
        while count > 1 and not visible[count - 1]:
            count -= 1
        seen = 0
        for t in range(count):
            seen += visible[t]
    fours = count // 4 * 4
    for head in range(heads):
        begin = head * depth
        for t in range(0, fours, 4):
            first, second, third, fourth = zero, zero, zero, zero
            a, b, c, e = _four_origins(origins, own, t)
            for d in range(depth):
                q = query[begin + d]
                first += q * keys[a, head, t, d]
                second += q * keys[b, head, t + 1, d]
                third += q * keys[c, head, t + 2, d]
                fourth += q * keys[e, head, t + 3, d]
            weights[t], weights[t + 1], weights[t + 2], weights[t + 3] = first, second, third, fourth
        for t in range(fours, count):
            first, a = zero, _origin(origins, own, t)
            for d in range(depth):
                first += query[begin + d] * keys[a, head, t, d]
            weights[t] = first
        if seen < count:
            for t in range(count):
                weights[t] = weights[t] if visible[t] else -np.inf
        highest = query.dtype.type(-np.inf)
        for t in range(count):
            highest = max(highest, weights[t])
        for t in range(count):
            weights[t] = exponential(float(scale * (weights[t] - highest)))
        if seen < count:
            for t in range(count):
                weights[t] = weights[t] if visible[t] else zero
        total = zero
        for t in range(count):
            total += weights[t]
        for d in range(depth):
            out[begin + d] = zero
        for t in range(0, fours, 4):
            first, second, third, fourth = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
            a, b, c, e = _four_origins(origins, own, t)
            for d in range(depth):
                out[begin + d] += (first * values[a, head, t, d] + second * values[b, head, t + 1, d]
                                   + third * values[c, head, t + 2, d] + fourth * values[e, head, t + 3, d])
        for t in range(fours, count):
            a = _origin(origins, own, t)
            for d in range(depth):
                out[begin + d] += weights[t] * values[a, head, t, d]
        inverse = 1 / total
        for d in range(depth):
            out[begin + d] *= inverse
