"""Attention of queries to the keys and values of their rows, compiled."""

import math

import numpy as np

from pipeline.compiled import njit
from pipeline.engine.best import exponential
from pipeline.engine.reading import Bools, Floats, Ints

_SUM = {"contract", "nsz", "reassoc"}  # the order of a sum depends only on its length


@njit(cache=True, nogil=True, error_model="numpy")
def attend_rows(first: int, last: int, queries: Floats, keys: Floats, values: Floats, counts: Ints, mask: Bools,
                places: Ints, out: Floats) -> None:
    """Write the attention of some of M queries, from `first` to before `last`.

    Args:
        queries: (M, Q), each in the first D numbers; M is a multiple of B, and neighbours share a row.
        keys, values: (B, heads, T, D / heads).
        counts: (B,), how many of the T there are.
        mask: (1 or B, 1 or N, T), which of them the queries may see, each at least one; no rows: all.
        places: (B,), the index of a row's first query in the mask's N; the next one has the next.
        out: (M, D).
    """
    per, D = len(queries) // len(keys), out.shape[1]
    weights = np.empty(keys.shape[2], queries.dtype)
    for m in range(first, last):
        b = m // per
        visible = mask[b % len(mask), (places[b] + m % per) % mask.shape[1]] if len(mask) else mask.reshape(-1)
        _attend(queries[m, :D], keys[b], values[b], counts[b], visible, weights, out[m])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUM)
def _attend(query: Floats, keys: Floats, values: Floats, count: int, visible: Bools, weights: Floats,
            out: Floats) -> None:
    """Write into out (D,) the attention of a query (D,) to the first `count` keys and values (heads, T, D / heads).

    It takes four keys at a time, so that the query and the output are read and written a quarter as often.

    Args:
        visible: (count,), which of them the query may see, at least one; empty: all.
        weights: at least `count` numbers, overwritten.
    """
    heads, _, depth = keys.shape
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
            for d in range(depth):
                q = query[begin + d]
                first += q * keys[head, t, d]
                second += q * keys[head, t + 1, d]
                third += q * keys[head, t + 2, d]
                fourth += q * keys[head, t + 3, d]
            weights[t], weights[t + 1], weights[t + 2], weights[t + 3] = first, second, third, fourth
        for t in range(fours, count):
            first = zero
            for d in range(depth):
                first += query[begin + d] * keys[head, t, d]
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
            for d in range(depth):
                out[begin + d] += (first * values[head, t, d] + second * values[head, t + 1, d]
                                   + third * values[head, t + 2, d] + fourth * values[head, t + 3, d])
        for t in range(fours, count):
            for d in range(depth):
                out[begin + d] += weights[t] * values[head, t, d]
        inverse = 1 / total
        for d in range(depth):
            out[begin + d] *= inverse
