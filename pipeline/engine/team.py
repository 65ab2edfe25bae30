"""One product, or the attention of some queries, by several threads: each takes a share until nothing is left.

Of a wide model, a step of a few rows costs the reading of its weights, which two cores do faster than one. A step has
forty products of 10 to 100 microseconds each, and the parallel loop of a library costs as much as the smaller ones. So
helpers wait for the next task in a loop, for as long as a search runs (`helpers.together`), and everything that the
threads tell each other is in one array, the team: 80 integers, or none where a thread is alone. A product is shared by
panels of its matrix, attention by queries; these are the pieces of a task.

A piece's sums are the same whichever thread computes them: a team changes no bit.
"""

import numpy as np
from numba import carray

from pipeline.compiled import njit
from pipeline.engine.atomic import add, address, load, replace, store, wait
from pipeline.engine.attention import attend_rows
from pipeline.engine.panels import multiply_panels
from pipeline.engine.reading import COLUMNS, Floats, Ints, Multiplicands, Panels, Seen

# Places in the array. What several threads write has 128 bytes of its own, so that no core waits for another's.
_WORD = 0  # the number of the task, its pieces (16 bits), and how many of these have been taken (16 bits)
_DONE = 16  # pieces that helpers have computed
_OVER = 32  # whether the helpers may leave
_SIZE, _LEAST, _TASK = range(48, 51)
# of a product: (M, K) rows, (K, N) weights, and where they are
_M, _K, _N, _ROWS, _OF_ROWS, _WEIGHT, _SCALE, _BIAS, _OUT = range(51, 60)
# of attention: queries (M, Q) of R rows, keys and values (P, heads, T, D / heads), a mask of any three sizes, and
# origins (R or 0, T); D is `_N`
_Q, _R, _P, _HEADS, _T, _MASKS, _TOKENS, _VISIBLE, _BRANCHES = range(60, 69)
_KEYS, _VALUES, _OWN, _ORIGINS, _COUNTS, _MASK, _PLACES = range(69, 76)

_EXACT, _ROUNDED, _ATTENTION = range(3)
"""Tasks: products of floats and of bytes, and attention."""
_MOST_PIECES = 2**16 - 1
_SMALLEST = 2**17
"""The bytes that the smallest task reads that is worth sharing: 2 microseconds."""


def new() -> Ints:
    """A team, closed."""
    team = np.zeros(80, np.int64)
    close(team)
    return team


def open_for(threads: int, team: Ints) -> None:
    """Let those who call `help_out` stay; threads: them and the one that has the tasks."""
    team[_SIZE], team[_LEAST], team[_OVER] = threads, _SMALLEST, 0


def close(team: Ints) -> None:
    """Let them leave. No task may be under way."""
    team[_OVER] = 1


@njit(cache=True, nogil=True)
def multiply_together(rows: Multiplicands, of_rows: Floats, weight: Panels, scale: Floats, bias: Floats, out: Floats,
                      team: Ints) -> None:
    """`matrix.product` in float32, by this thread and those of its helpers that are free; returns when all is written.

    A helper that has not begun is not waited for.
    """
    M, N = out.shape
    team[_TASK], team[_M], team[_K], team[_N] = _ROUNDED if rows.itemsize == 1 else _EXACT, M, rows.shape[1], N
    team[_ROWS], team[_OF_ROWS], team[_WEIGHT] = rows.ctypes.data, of_rows.ctypes.data, weight.ctypes.data
    team[_SCALE], team[_BIAS], team[_OUT] = scale.ctypes.data, bias.ctypes.data, out.ctypes.data
    pieces = -(-N // COLUMNS)
    _begin(pieces, team)
    own = 0
    while True:
        first, last = _take(team)
        if first == last:
            break
        multiply_panels(first, last, rows, of_rows, weight, scale, bias, out)
        own += last - first
    _end(pieces - own, team)


@njit(cache=True, nogil=True)
def attend_together(queries: Floats, seen: Seen, out: Floats, team: Ints) -> None:
    """`attention.attend_rows` of all queries in float32, by this thread and its free helpers; see `multiply_together`.
    """
    M, N = out.shape
    team[_TASK], team[_M], team[_Q], team[_N], team[_R] = _ATTENTION, M, queries.shape[1], N, len(seen.own)
    team[_P], team[_HEADS], team[_T], _ = seen.keys.shape
    (team[_MASKS], team[_TOKENS], team[_VISIBLE]), team[_BRANCHES] = seen.mask.shape, len(seen.origins)
    team[_ROWS], team[_KEYS], team[_VALUES] = queries.ctypes.data, seen.keys.ctypes.data, seen.values.ctypes.data
    team[_OWN], team[_ORIGINS], team[_COUNTS] = seen.own.ctypes.data, seen.origins.ctypes.data, seen.counts.ctypes.data
    team[_MASK], team[_PLACES], team[_OUT] = seen.mask.ctypes.data, seen.places.ctypes.data, out.ctypes.data
    _begin(M, team)
    own = 0
    while True:
        first, last = _take(team)
        if first == last:
            break
        attend_rows(first, last, queries, seen, out)
        own += last - first
    _end(M - own, team)


@njit(cache=True, nogil=True)
def help_out(team: Ints) -> None:
    """Take pieces of whatever task there is, until the team is closed."""
    while load(team, _OVER) == 0:
        first, last = _take(team)
        if first == last:
            wait()
            continue
        out = carray(address(team[_OUT], np.float32), (team[_M], team[_N]))
        if team[_TASK] == _ATTENTION:
            _help_to_attend(first, last, out, team)
        else:
            _help_to_multiply(first, last, out, team)
        add(team, _DONE, last - first)


@njit(cache=True, nogil=True)
def _help_to_multiply(first: int, last: int, out: Floats, team: Ints) -> None:
    M, K, N = team[_M], team[_K], team[_N]
    panels = -(-N // COLUMNS) * COLUMNS * K
    scale, bias = carray(address(team[_SCALE], np.float32), N), carray(address(team[_BIAS], np.float32), N)
    if team[_TASK] == _ROUNDED:
        multiply_panels(first, last, carray(address(team[_ROWS], np.int8), (M, K)),
                        carray(address(team[_OF_ROWS], np.float32), (M, 2)),
                        carray(address(team[_WEIGHT], np.uint8), panels), scale, bias, out)
    else:
        exact = carray(address(team[_ROWS], np.float32), (M, K))
        multiply_panels(first, last, exact, exact[:0], carray(address(team[_WEIGHT], np.float32), panels), scale,
                        bias, out)


@njit(cache=True, nogil=True)
def _help_to_attend(first: int, last: int, out: Floats, team: Ints) -> None:
    R, of_past = team[_R], (team[_P], team[_HEADS], team[_T], team[_N] // team[_HEADS])
    seen = Seen(carray(address(team[_KEYS], np.float32), of_past), carray(address(team[_VALUES], np.float32), of_past),
                carray(address(team[_OWN], np.int64), R),
                carray(address(team[_ORIGINS], np.int64), (team[_BRANCHES], team[_T])),
                carray(address(team[_COUNTS], np.int64), R),
                carray(address(team[_MASK], np.bool_), (team[_MASKS], team[_TOKENS], team[_VISIBLE])),
                carray(address(team[_PLACES], np.int64), R))
    attend_rows(first, last, carray(address(team[_ROWS], np.float32), (team[_M], team[_Q])), seen, out)


@njit(cache=True, nogil=True)
def is_shared(rows: Multiplicands, weight: Panels, out: Floats, team: Ints) -> bool:
    """Whether a team computes a product: that of float32, and not faster by one thread."""
    if len(team) == 0 or out.itemsize != 4 or out.shape[1] > _MOST_PIECES * COLUMNS:
        return False
    size = rows.shape[1] * out.shape[1] * weight.itemsize
    return size >= team[_LEAST]


@njit(cache=True, nogil=True)
def is_attention_shared(counts: Ints, out: Floats, team: Ints) -> bool:
    """Whether a team computes attention to (R,) tokens; see `is_shared`. Every query reads keys and values of its row.
    """
    M, D = out.shape
    if len(team) == 0 or out.itemsize != 4 or not 2 <= M <= _MOST_PIECES:
        return False
    return 2 * out.itemsize * D * (M // len(counts)) * counts.sum() >= team[_LEAST]


@njit(cache=True, nogil=True)
def _begin(pieces: int, team: Ints) -> None:
    """Let the helpers see a task, whose places have been written."""
    team[_DONE] = 0
    store(team, _WORD, (((load(team, _WORD) >> 32) + 1 & 0x7FFFFFFF) << 32) + (pieces << 16))


@njit(cache=True, nogil=True)
def _end(pieces: int, team: Ints) -> None:
    """Wait until helpers have computed so many pieces."""
    while load(team, _DONE) < pieces:
        wait()


@njit(cache=True, nogil=True)
def _take(team: Ints) -> tuple[int, int]:
    """Take the next pieces, from the first to before the last; none where both are equal.

    Shares become smaller towards the end, so that all threads end at about the same time. A word that has changed
    meanwhile is not taken from, so the pieces taken are of a task that waits for them.
    """
    while True:
        word = load(team, _WORD)
        pieces, taken = word >> 16 & _MOST_PIECES, word & _MOST_PIECES
        share = min(max((pieces - taken) // (2 * team[_SIZE]), 1), pieces - taken)
        if share == 0 or replace(team, _WORD, word, word + share):
            return taken, taken + share
