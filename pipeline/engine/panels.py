"""The walk through a matrix: its panels, the parts of a panel, and the groups of rows that are multiplied by a part.

The weights of a large model come from memory, which is as much work as multiplying them by ten rows. So that both
happen at once, what comes next is fetched while this is multiplied, a share of it by every group of rows. Where rows
need several passes over a panel, it is read in parts, which the nearest cache holds for all passes.
"""

from pipeline.compiled import njit
from pipeline.engine.by_address import by_address
from pipeline.engine.reading import Floats, Multiplicands, Panels
from pipeline.engine.tile import MOST_ROUNDED_ROWS, MOST_ROWS, REGISTERS, multiply

_ALONE = MOST_ROWS if REGISTERS == 32 else 2  # rows up to which the processor reads ahead far enough by itself
_PART = 128  # rows of a matrix that are 16 KB of a panel of float32
_WIDE = 512  # rows and columns from which a matrix belongs to a model that no cache holds


@by_address
@njit(cache=True, nogil=True)
def multiply_panels(first: int, last: int, rows: Multiplicands, of_rows: Floats, weight: Panels, scale: Floats,
                    bias: Floats, out: Floats) -> None:
    """Some panels of `matrix.product`.

    The weights are read from memory once, panel by panel. A panel stays in the nearest caches for all groups of rows.
    """
    (M, K), N = rows.shape, out.shape[1]
    groups = max(-(-M // (MOST_ROWS if rows.itemsize > 1 else MOST_ROUNDED_ROWS)), 1)
    together = max(-(-M // groups), 1)  # 4 and 4 rather than 7 and 1, which reads the panel for a single row
    fetches = _fetches(M, K, N)
    part = _PART if rows.itemsize > 1 and _gains_from_parts(M, fetches) else max(K, 1)
    for panel in range(first, last):
        for k in range(0, max(K, 1), part):  # also of an empty sum, which is the bias
            for begin in range(0, M, together):
                multiply(min(together, M - begin), rows, of_rows, begin, weight, panel, scale, bias, out, k,
                         min(k + part, K), fetches)


@njit(cache=True, nogil=True)
def _fetches(M: int, K: int, N: int) -> bool:
    """Whether M rows times a matrix (K, N) gain from fetching it: it comes from memory, and they need time."""
    return K >= _WIDE and N >= _WIDE and M > _ALONE


@njit(cache=True, nogil=True)
def _gains_from_parts(M: int, fetches: bool) -> bool:
    """Whether M rows should read a panel in parts, between which the sums so far are stored.

    With 32 registers a pass takes more rows, so the sums of many rows cost more than is gained.
    """
    return fetches and M <= 2 * MOST_ROWS if REGISTERS == 32 else M > MOST_ROWS
