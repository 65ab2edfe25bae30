"""A few rows times a matrix, compiled: for products so small that calling a library costs as much as they do.

Every row is summed in the same order whatever the other rows are, which no BLAS promises: a row gives the same bits in
any batch.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from pipeline.compiled import njit
from pipeline.engine.reading import COLUMNS, Floats, Panels
from pipeline.engine.rounding import round_rows
from pipeline.engine.tile import MOST_ROWS, multiply


@njit(cache=True, nogil=True)
def affine(x: Floats, weight: Panels, scale: Floats, bias: Floats, out: Floats) -> None:
    """x (M, K) times weight (K, N) * scale (N,), plus bias (N,), into out (M, N); K a multiple of 4.

    Rounded weights are multiplied by rounded rows.
    """
    rows, factors = _as_multiplied(x, weight)
    product(rows, factors, weight, scale, bias, out)


@njit(cache=True, nogil=True)
def product(rows: Floats | npt.NDArray[np.int8], factors: Floats, weight: Panels, scale: Floats, bias: Floats,
            out: Floats) -> None:
    """`affine` of rows that are already rounded to bytes, each to be multiplied by one of factors (M,), or are exact.

    The weights are read from memory once, panel by panel. A panel stays in the nearest caches for all groups of rows.
    """
    M, N = out.shape
    for panel in range(-(-N // COLUMNS)):
        for first in range(0, M, MOST_ROWS):
            multiply(min(MOST_ROWS, M - first), rows, factors, first, weight, panel, scale, bias, out)


@njit(cache=True, nogil=True)
def size(K: int, N: int) -> int:
    """The size of a matrix (K, N) in panels."""
    return -(-N // COLUMNS) * COLUMNS * K


def _as_multiplied(x: Any, weight: Any) -> Any:
    """Rows as they are multiplied by such weights, and the factor of each row."""
    raise NotImplementedError("compiled code uses an overload")


@overload(_as_multiplied, inline="always")
def _choose(x: Any, weight: Any) -> Any:
    def exact(x: Any, weight: Any) -> Any:
        return x, x[:0, 0]

    def rounded(x: Any, weight: Any) -> Any:
        rows, factors = np.empty(x.shape, np.int8), np.empty(len(x), x.dtype)
        round_rows(x, rows, factors)
        return rows, factors
    return rounded if isinstance(weight.dtype, types.Integer) else exact
