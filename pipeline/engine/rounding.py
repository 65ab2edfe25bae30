"""Rows rounded to 8 bits, compiled."""

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.reading import Floats

_LEAST = 1e-30  # lower bound of a row's largest number, which divides the row


@njit(cache=True, nogil=True, error_model="numpy")
def round_rows(x: Floats, rounded: npt.NDArray[np.int8], factors: Floats) -> None:
    """Write x (M, K) as integers from -127 to 127, and the factor of each row, (M,)."""
    for m in range(len(x)):
        highest = x.dtype.type(_LEAST)
        for k in range(x.shape[1]):
            highest = max(highest, abs(x[m, k]))
        factors[m] = highest / x.dtype.type(127)
        inverse = x.dtype.type(127) / highest
        for k in range(x.shape[1]):
            rounded[m, k] = np.int32(np.rint(x[m, k] * inverse))
