"""Rows rounded to 8 bits, compiled."""

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.reading import Floats

_LEAST = 1e-30  # lower bound of a row's largest number, which divides the row


@njit(cache=True, nogil=True, error_model="numpy")
def round_rows(x: Floats, rounded: npt.NDArray[np.int8], factors: Floats) -> None:
    """Write x (M, K) as integers from -127 to 127, and the factor of each row, (M,); K a multiple of 4."""
    for m in range(len(x)):
        first = second = third = fourth = x.dtype.type(_LEAST)  # a comparison waits for the one before it
        for k in range(0, x.shape[1], 4):
            first, second = max(first, abs(x[m, k])), max(second, abs(x[m, k + 1]))
            third, fourth = max(third, abs(x[m, k + 2])), max(fourth, abs(x[m, k + 3]))
        highest = max(first, second, third, fourth)
        factors[m] = highest / x.dtype.type(127)
        inverse = x.dtype.type(127) / highest
        for k in range(x.shape[1]):
            rounded[m, k] = np.int32(np.rint(x[m, k] * inverse))
