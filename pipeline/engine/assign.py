"""Assignments of compiled functions that compile to their loop alone.

numba compiles the error message for differing shapes into every caller of `target[...] = source[...]`, which takes
longer than most of our functions.
"""

from pipeline.compiled import njit
from pipeline.engine.reading import Floats, Ints


@njit(cache=True, nogil=True)
def assign(source: Floats | Ints, target: Floats | Ints) -> None:
    """Write numbers (n,) into the beginning of an array that is at least as long; the two must not overlap."""
    for i in range(len(source)):
        target[i] = source[i]
