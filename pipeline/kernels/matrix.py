"""A few rows times a matrix, compiled: for products so small that calling a library costs as much as they do.

Every row is summed up in the same order whatever rows stand beside it, which no BLAS promises: the same row gives the
same bits in any batch.
"""

from pipeline.compiled import njit
from pipeline.kernels.reading import Floats, Matrix

_FUSED = {"contract", "nsz"}  # a product and a sum may be rounded once; nothing may be reordered


@njit(cache=True, nogil=True, error_model="numpy")
def affine(x: Floats, weight: Matrix, scale: Floats, bias: Floats, out: Floats) -> None:
    """x (M, K) times weight (K, N) * scale (N,), plus bias (N,), into out (M, N); K a multiple of 4."""
    out[:] = 0
    together = len(x) // 4 * 4
    for m in range(0, together, 4):  # four rows at once read the weights once
        _add_four(x[m:m + 4], weight, out[m:m + 4])
    for m in range(together, len(x)):
        _add_one(x[m], weight, out[m])
    for m in range(len(out)):
        for j in range(len(bias)):
            out[m, j] = out[m, j] * scale[j] + bias[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FUSED)
def _add_four(x: Floats, weight: Matrix, out: Floats) -> None:
    """Add x (4, K) times weight (K, N) to out (4, N), four columns at once: sums are written a quarter as often."""
    number = x.dtype.type
    for k in range(0, len(weight), 4):
        w0, w1, w2, w3 = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
        a0, a1, a2, a3 = x[0, k], x[0, k + 1], x[0, k + 2], x[0, k + 3]
        b0, b1, b2, b3 = x[1, k], x[1, k + 1], x[1, k + 2], x[1, k + 3]
        c0, c1, c2, c3 = x[2, k], x[2, k + 1], x[2, k + 2], x[2, k + 3]
        d0, d1, d2, d3 = x[3, k], x[3, k + 1], x[3, k + 2], x[3, k + 3]
        for j in range(weight.shape[1]):
            p, q, r, s = number(w0[j]), number(w1[j]), number(w2[j]), number(w3[j])
            out[0, j] += a0 * p + a1 * q + a2 * r + a3 * s
            out[1, j] += b0 * p + b1 * q + b2 * r + b3 * s
            out[2, j] += c0 * p + c1 * q + c2 * r + c3 * s
            out[3, j] += d0 * p + d1 * q + d2 * r + d3 * s


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FUSED)
def _add_one(x: Floats, weight: Matrix, out: Floats) -> None:
    """Add x (K,) times weight (K, N) to out (N,), by the same sums as `_add_four`."""
    number = x.dtype.type
    for k in range(0, len(weight), 4):
        a0, a1, a2, a3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        w0, w1, w2, w3 = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
        for j in range(weight.shape[1]):
            p, q, r, s = number(w0[j]), number(w1[j]), number(w2[j]), number(w3[j])
            out[j] += a0 * p + a1 * q + a2 * r + a3 * s
