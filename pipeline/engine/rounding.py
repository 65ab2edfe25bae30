"""Rows rounded to 8 bits, compiled."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.extending import overload

from pipeline.compiled import njit
from pipeline.engine.reading import Floats

_LEAST = 1e-30  # lower bound of a row's largest number, which divides the row


@njit(cache=True, nogil=True, error_model="numpy")
def round_rows(x: Floats, rounded: npt.NDArray[np.int8], of_rows: Floats) -> None:
    """Write x (M, K) as integers from -127 to 127, and of each row its factor and the sum of its integers, (M, 2).

    Sums are exact, also in float32, because K, the width of a layer, is far below 2^24 / 127.
    """
    for m in range(len(x)):
        # Numbers that are not negative have the order of their bits, and only of integers a compiler compares many at
        # once: the largest of floats could be one that is not a number.
        bits = _bits(x[m])
        top = bits.dtype.type(np.iinfo(bits.dtype).max)
        highest = bits.dtype.type(0)
        for k in range(len(bits)):
            highest = bits.dtype.type(max(highest, bits[k] & top))
        _bits(of_rows[m])[0] = highest
        largest = max(of_rows[m, 0], x.dtype.type(_LEAST))
        inverse, total = x.dtype.type(127) / largest, np.int32(0)
        for k in range(x.shape[1]):
            integer = np.int32(np.rint(x[m, k] * inverse))
            rounded[m, k] = integer
            total += integer
        of_rows[m, 0], of_rows[m, 1] = largest / x.dtype.type(127), total


def _bits(row: Any) -> Any:
    """The same memory as signed integers of the same size."""
    raise NotImplementedError("compiled code uses an overload")


@overload(_bits, inline="always")
def _choose(row: Any) -> Any:
    integer = np.int32 if row.dtype.bitwidth == 32 else np.int64

    def view(row: Any) -> Any:
        return row.view(integer)
    return view
