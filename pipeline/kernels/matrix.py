"""A few rows times a matrix, compiled: for products so small that calling a library costs as much as they do.

Every row is summed up in the same order whatever rows stand beside it, which no BLAS promises: the same row gives the
same bits in any batch.
"""

import numpy as np

from pipeline.compiled import njit
from pipeline.kernels.reading import COLUMNS, Floats, Panels
from pipeline.kernels.tile import multiply

_LINE = 64  # bytes of a cache line; a vector that lies in two of them is read twice


@njit(cache=True, nogil=True, error_model="numpy")
def affine(x: Floats, weight: Panels, scale: Floats, bias: Floats, out: Floats) -> None:
    """x (M, K) times weight (K, N) * scale (N,), plus bias (N,), into out (M, N); K a multiple of 4.

    The weights are read once, a panel of columns after the other.
    """
    (M, K), N = x.shape, len(bias)
    room = np.empty(4 * COLUMNS + _LINE // x.itemsize, x.dtype)
    sums = room[-room.ctypes.data % _LINE // x.itemsize:]
    for begin in range(0, N, COLUMNS):
        columns, panel = min(COLUMNS, N - begin), begin * K
        for m in range(0, M, 4):
            rows = min(4, M - m)
            if rows == 4:
                multiply(4, x, m, weight, panel, sums)
            elif rows == 3:
                multiply(3, x, m, weight, panel, sums)
            elif rows == 2:
                multiply(2, x, m, weight, panel, sums)
            else:
                multiply(1, x, m, weight, panel, sums)
            for r in range(rows):
                for j in range(columns):
                    out[m + r, begin + j] = sums[r * COLUMNS + j] * scale[begin + j] + bias[begin + j]


@njit(cache=True, nogil=True)
def size(K: int, N: int) -> int:
    """Numbers that a matrix (K, N) takes, laid out in panels."""
    return -(-N // COLUMNS) * COLUMNS * K
