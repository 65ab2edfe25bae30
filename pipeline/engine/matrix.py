"""A few rows times a matrix, compiled: for products so small that calling a library costs as much as they do.

Every row is summed in the same order whatever the other rows are, which no BLAS promises: a row gives the same bits in
any batch.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from pipeline.compiled import njit
from pipeline.engine.by_address import by_address
from pipeline.engine.panels import multiply_panels
from pipeline.engine.reading import COLUMNS, Floats, Ints, Multiplicands, Panels
from pipeline.engine.rounding import round_rows
from pipeline.engine.team import is_shared, multiply_together


@by_address
@njit(cache=True, nogil=True)
def affine(x: Floats, weight: Panels, scale: Floats, bias: Floats, out: Floats, team: Ints) -> None:
    """x (M, K) times weight (K, N) * scale (N,), plus bias (N,), into out (M, N); K a multiple of 4.

    Rounded weights are multiplied by rounded rows. Arrays are C-contiguous: others are refused when this is compiled.

    Args:
        team: the threads that share the product.
    """
    rows, of_rows = _as_multiplied(x, weight)
    product(rows, of_rows, weight, scale, bias, out, team)


@by_address
@njit(cache=True, nogil=True)
def product(rows: Multiplicands, of_rows: Floats, weight: Panels, scale: Floats, bias: Floats, out: Floats,
            team: Ints) -> None:
    """`affine` of rows that are exact, or of bytes with the factor and the sum of each row, (M, 2) (`round_rows`)."""
    if is_shared(rows, weight, out, team):
        multiply_together(rows, of_rows, weight, scale, bias, out, team)
    else:
        first = int(np.int64(0))  # for a literal it would be compiled once more
        multiply_panels(first, -(-out.shape[1] // COLUMNS), rows, of_rows, weight, scale, bias, out)


@njit(cache=True, nogil=True)
def size(K: int, N: int) -> int:
    """The size of a matrix (K, N) in panels."""
    return -(-N // COLUMNS) * COLUMNS * K


def _as_multiplied(x: Any, weight: Any) -> Any:
    """Rows as they are multiplied by such weights and, of each rounded row, its factor and its sum."""
    raise NotImplementedError("compiled code uses an overload")


@overload(_as_multiplied, inline="always")
def _choose(x: Any, weight: Any) -> Any:
    def exact(x: Any, weight: Any) -> Any:
        return x, x[:0]

    def rounded(x: Any, weight: Any) -> Any:
        rows, of_rows = np.empty(x.shape, np.int8), np.empty((len(x), 2), x.dtype)
        round_rows(x, rows, of_rows)
        return rows, of_rows
    return rounded if isinstance(weight.dtype, types.Integer) else exact
