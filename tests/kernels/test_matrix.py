"""Products of a few rows with a matrix: numpy's, and for every row the same bits whatever stands beside it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kernels.matrix import affine, size
from pipeline.kernels.packing import pack_matrix

KINDS = st.sampled_from([np.float32, np.float64])


def random(seed: int, *shape: int, kind: type) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(kind)


@given(st.integers(0, 9), st.integers(0, 12), st.integers(0, 99), KINDS, st.booleans(), st.integers(0, 99))
def test_it_is_the_product(M: int, fours: int, N: int, kind: type, rounded: bool, seed: int) -> None:
    K = 4 * fours
    x, weight, bias = (random(seed, *shape, kind=kind) for shape in ((M, K), (K, N), (N,)))
    if rounded and not K:
        return
    packed, scale = pack_matrix(weight, rounded)
    assert len(packed) == size(K, N) and packed.dtype == (np.int8 if rounded else kind)
    out = np.full((M, N), np.nan, kind)
    affine(x, packed, scale, bias, out)
    read = np.round(weight / scale) * scale if rounded else weight
    assert np.abs(read - weight).max(initial=0) <= np.abs(weight).max(initial=0) / 250
    loose = 1e-4 if kind is np.float32 else 1e-12
    np.testing.assert_allclose(out, x.astype(np.float64) @ read + bias, rtol=loose, atol=loose)
    for row in range(M):
        alone = np.empty((1, N), kind)
        affine(x[row:row + 1], packed, scale, bias, alone)
        assert (alone[0] == out[row]).all()


@pytest.mark.parametrize("rounded", [False, True])
def test_panels_begin_with_a_cache_line(rounded: bool) -> None:
    for _ in range(20):
        packed, _ = pack_matrix(random(1, 8, 40, kind=np.float32), rounded)
        assert packed.ctypes.data % 64 == 0
