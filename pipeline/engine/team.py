"""One product by several threads: each takes panels of the matrix until none is left.

Of a wide model, a step of a few rows costs the reading of its weights, which two cores do faster than one. A step has
forty products of 10 to 100 microseconds each, and the parallel loop of a library costs as much as the smaller ones. So
helpers wait for the next product in a loop, for as long as a search runs (`helpers.together`), and everything that the
threads tell each other is in one array, the team: 64 integers, or none where a thread is alone.

A panel's sums are the same whichever thread computes them: a team changes no bit.
"""

import numpy as np
from numba import carray

from pipeline.compiled import njit
from pipeline.engine.atomic import add, address, load, replace, store, wait
from pipeline.engine.panels import multiply_panels
from pipeline.engine.reading import COLUMNS, Floats, Ints, Multiplicands, Panels

# Places in the array. What several threads write has 128 bytes of its own, so that no core waits for another's.
_WORD = 0  # the number of the product, its panels (16 bits), and how many of these have been taken (16 bits)
_DONE = 16  # panels that helpers have computed
_OVER = 32  # whether the helpers may leave
_SIZE, _LEAST, _ROUNDED, _M, _K, _N, _ROWS, _FACTORS, _WEIGHT, _SCALE, _BIAS, _OUT = range(48, 60)

_MOST_PANELS = 2**16 - 1
_SMALLEST = 2**17
"""The bytes of the smallest matrix that is worth sharing: a product of 2 microseconds."""


def new() -> Ints:
    """A team, closed."""
    team = np.zeros(64, np.int64)
    close(team)
    return team


def open_for(threads: int, team: Ints) -> None:
    """Let those who call `help_out` stay; threads: them and the one that has the products."""
    team[_SIZE], team[_LEAST], team[_OVER] = threads, _SMALLEST, 0


def close(team: Ints) -> None:
    """Let them leave. No product may be under way."""
    team[_OVER] = 1


@njit(cache=True, nogil=True)
def multiply_together(rows: Multiplicands, factors: Floats, weight: Panels, scale: Floats, bias: Floats, out: Floats,
                      team: Ints) -> None:
    """`matrix.product` in float32, by this thread and those of its helpers that are free; returns when all is written.

    A helper that has not begun is not waited for.
    """
    (M, N), panels = out.shape, -(-out.shape[1] // COLUMNS)
    team[_ROUNDED], team[_M], team[_K], team[_N] = rows.itemsize == 1, M, rows.shape[1], N
    team[_ROWS], team[_FACTORS], team[_WEIGHT] = rows.ctypes.data, factors.ctypes.data, weight.ctypes.data
    team[_SCALE], team[_BIAS], team[_OUT] = scale.ctypes.data, bias.ctypes.data, out.ctypes.data
    team[_DONE] = 0
    store(team, _WORD, (((load(team, _WORD) >> 32) + 1 & 0x7FFFFFFF) << 32) + (panels << 16))
    own = 0
    while True:
        first, last = _take(team)
        if first == last:
            break
        multiply_panels(first, last, rows, factors, weight, scale, bias, out)
        own += last - first
    while load(team, _DONE) + own < panels:
        wait()


@njit(cache=True, nogil=True)
def help_out(team: Ints) -> None:
    """Take panels of whatever product there is, until the team is closed."""
    while load(team, _OVER) == 0:
        first, last = _take(team)
        if first == last:
            wait()
            continue
        M, K, N = team[_M], team[_K], team[_N]
        panels = -(-N // COLUMNS) * COLUMNS * K
        scale, bias = carray(address(team[_SCALE], np.float32), N), carray(address(team[_BIAS], np.float32), N)
        out = carray(address(team[_OUT], np.float32), (M, N))
        if team[_ROUNDED]:
            multiply_panels(first, last, carray(address(team[_ROWS], np.int8), (M, K)),
                            carray(address(team[_FACTORS], np.float32), M),
                            carray(address(team[_WEIGHT], np.uint8), panels), scale, bias, out)
        else:
            exact = carray(address(team[_ROWS], np.float32), (M, K))
            multiply_panels(first, last, exact, exact[:0, 0], carray(address(team[_WEIGHT], np.float32), panels), scale,
                            bias, out)
        add(team, _DONE, last - first)


@njit(cache=True, nogil=True)
def is_shared(rows: Multiplicands, weight: Panels, out: Floats, team: Ints) -> bool:
    """Whether a team computes a product: that of float32, and not faster by one thread."""
    if len(team) == 0 or out.itemsize != 4 or out.shape[1] > _MOST_PANELS * COLUMNS:
        return False
    size = rows.shape[1] * out.shape[1] * weight.itemsize
    return size >= team[_LEAST]


@njit(cache=True, nogil=True)
def _take(team: Ints) -> tuple[int, int]:
    """Take the next panels, from the first to before the last; none where both are equal.

    Shares become smaller towards the end, so that all threads end at about the same time. A word that has changed
    meanwhile is not taken from, so the panels taken are of a product that waits for them.
    """
    while True:
        word = load(team, _WORD)
        panels, taken = word >> 16 & _MOST_PANELS, word & _MOST_PANELS
        share = min(max((panels - taken) // (2 * team[_SIZE]), 1), panels - taken)
        if share == 0 or replace(team, _WORD, word, word + share):
            return taken, taken + share
