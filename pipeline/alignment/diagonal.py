"""The prior of a target word's source position, which favours the diagonal.

For target position i of n and source position j of m (both from 1), with the tension lambda,

    P(j | i, m, n) = exp(lambda h) / Z(i, m, n),    h = -|i / n - j / m|.

Left of the diagonal and right of it the terms of Z are geometric series with the ratio exp(-lambda / m), so that Z and
its derivative cost O(1) (Dyer, Chahuneau and Smith 2013, section 3.1), and a term follows from its neighbour by one
multiplication. Everything here depends only on lengths and is tabulated once per *shape* (m, n), of which a corpus has
few.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.compiled import njit

_BLOCK = 1 << 18  # pairs whose lengths are compared at once


class Shapes(NamedTuple):
    """The distinct pairs of lengths of a corpus. Target positions of all shapes are numbered consecutively."""

    m: NDArray[np.int64]
    """Source lengths, shape (shapes)."""
    n: NDArray[np.int64]
    """Target lengths, shape (shapes)."""
    starts: NDArray[np.int64]
    """The number of each shape's first target position, and at the end their total, shape (shapes + 1)."""

    @property
    def positions(self) -> int:
        return int(self.starts[-1])


class Prior(NamedTuple):
    """P(j | i, m, n) times 1 - p0 for every shape: its values beside the diagonal and its decay."""

    left: NDArray[np.float64]
    """Of the last j with j / m <= i / n, shape (positions); 0 where there is none."""
    right: NDArray[np.float64]
    """Of the first j with j / m > i / n, shape (positions); 0 where there is none."""
    decay: NDArray[np.float64]
    """exp(-lambda / m), shape (shapes)."""
    null: NDArray[np.float64]
    """P(no source word), shape (shapes): p0, or 1 where there is no source."""


def find_shapes(bitexts: Sequence[Bitext]) -> tuple[Shapes, list[NDArray[np.int32]]]:
    """Return the shapes of a corpus, and the shape of every pair of every bitext."""
    every = np.empty(0, np.int64)
    for bitext in bitexts:
        for codes in _codes(bitext):
            every = np.union1d(every, codes)
    shapes = Shapes(every >> 32, every & 0xFFFFFFFF, np.append(0, np.cumsum(every & 0xFFFFFFFF)))
    return shapes, [np.concatenate([np.empty(0, np.int32), *(np.searchsorted(every, codes).astype(np.int32)
                                                             for codes in _codes(bitext))]) for bitext in bitexts]


def _codes(bitext: Bitext) -> Iterator[NDArray[np.int64]]:
    """Yield both lengths of the pairs as one number, in blocks."""
    for start in range(0, bitext.pairs, _BLOCK):
        source, target = (np.diff(side.offsets[start:start + _BLOCK + 1]) for side in bitext)
        yield source << 32 | target


@njit(cache=True, nogil=True)
def cut_shapes(shape_of: NDArray[np.int32], weights: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Cut pairs into ranges whose weights, which are those of their shapes, sum to at most `most`, or of one pair.

    Returns:
        First pair and last pair + 1 of every range, shape (ranges, 2).
    """
    bounds = [0]
    total = 0
    for pair, shape in enumerate(shape_of):
        if total + weights[shape] > most and pair > bounds[-1]:
            bounds.append(pair)
            total = 0
        total += weights[shape]
    bounds.append(len(shape_of))
    starts = np.array(bounds)
    return np.column_stack((starts[:-1], starts[1:])) if len(shape_of) else np.empty((0, 2), np.int64)


@njit(cache=True, nogil=True)
def tabulate(shapes: Shapes, tension: float, null_probability: float) -> Prior:
    """Return the prior of every shape."""
    left, right = np.zeros(shapes.starts[-1]), np.zeros(shapes.starts[-1])
    decay, null = np.ones(len(shapes.m)), np.ones(len(shapes.m))
    for shape in range(len(shapes.m)):
        m, n = shapes.m[shape], shapes.n[shape]
        if m == 0:
            continue
        decay[shape], null[shape] = np.exp(-tension / m), null_probability
        for i in range(1, n + 1):
            here = i * m // n
            to_left = np.exp(-tension * (i / n - here / m)) if here > 0 else 0.0
            to_right = np.exp(-tension * ((here + 1) / m - i / n)) if here < m else 0.0
            Z = to_left * series(tension, m, here)[0] + to_right * series(tension, m, m - here)[0]
            position = shapes.starts[shape] + i - 1
            left[position] = (1 - null_probability) * to_left / Z
            right[position] = (1 - null_probability) * to_right / Z
    return Prior(left, right, decay, null)


@njit(cache=True, nogil=True)
def expected_feature(shapes: Shapes, tension: float, mass: NDArray[np.float64]) -> float:
    """Return the model's expectation of h, summed over target positions.

    `mass`, shape (positions), is the expected number of words with a source word at every position of every shape.
    """
    total = 0.0
    for shape in range(len(shapes.m)):
        m, n = shapes.m[shape], shapes.n[shape]
        if m == 0:
            continue
        for i in range(1, n + 1):
            here = i * m // n
            near_left, near_right = i / n - here / m, (here + 1) / m - i / n
            to_left = np.exp(-tension * near_left) if here > 0 else 0.0
            to_right = np.exp(-tension * near_right) if here < m else 0.0
            left_sum, left_moment = series(tension, m, here)
            right_sum, right_moment = series(tension, m, m - here)
            Z = to_left * left_sum + to_right * right_sum
            slope = -(to_left * (near_left * left_sum + left_moment / m)
                      + to_right * (near_right * right_sum + right_moment / m))  # dZ / dlambda
            total += mass[shapes.starts[shape] + i - 1] * slope / Z
    return total


@njit(cache=True, nogil=True)
def series(tension: float, m: int, count: int) -> tuple[float, float]:
    """Return the sums of q^k and of k q^k over k = 0 .. count - 1, for q = exp(-lambda / m)."""
    q, gap = np.exp(-tension / m), -np.expm1(-tension / m)  # gap = 1 - q, without cancellation
    power = np.exp(-tension / m * count)
    plain = -np.expm1(-tension / m * count) / gap
    return plain, (q * plain - count * power) / gap
