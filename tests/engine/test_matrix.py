"""Products of a few rows with a matrix: numpy's, and for every row the same bits whatever stands beside it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

from pipeline.engine.matrix import affine, size
from pipeline.engine.packing import pack_matrix
from pipeline.engine.reading import ALONE, Panels

KINDS = st.sampled_from([np.float32, np.float64])


def random(seed: int, *shape: int, kind: type) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(kind)


@given(st.integers(0, 9), st.integers(0, 12), st.integers(0, 99), KINDS, st.integers(0, 99))
def test_it_is_the_product(M: int, fours: int, N: int, kind: type, seed: int) -> None:
    K = 4 * fours
    x, weight, bias = (random(seed, *shape, kind=kind) for shape in ((M, K), (K, N), (N,)))
    packed, scale = pack_matrix(weight, False)
    assert len(packed) == size(K, N) and packed.dtype == kind
    out = product(x, packed, scale, bias)
    loose = 1e-4 if kind is np.float32 else 1e-12
    np.testing.assert_allclose(out, x.astype(np.float64) @ weight + bias, rtol=loose, atol=loose)


@given(st.integers(0, 9), st.integers(1, 40), st.integers(0, 99), KINDS, st.integers(0, 99))
def test_rounded_it_is_the_product_of_whole_numbers(M: int, fours: int, N: int, kind: type, seed: int) -> None:
    K = 4 * fours
    x, weight, bias = (random(seed, *shape, kind=kind) for shape in ((M, K), (K, N), (N,)))
    x[:1] = 0
    packed, scale = pack_matrix(weight, True)
    assert len(packed) == size(K, N) and packed.dtype == np.uint8
    out = product(x, packed, scale, bias)
    ours, factors = whole_numbers(x.T)
    theirs, scales = whole_numbers(weight)
    np.testing.assert_allclose(scale, scales, rtol=1e-6)
    loose = 1e-5 if kind is np.float32 else 1e-12
    np.testing.assert_allclose(out, (ours.T @ theirs) * np.outer(factors, scales) + bias, rtol=loose, atol=loose)


def whole_numbers(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns rounded to whole numbers up to 127, and what those of each are to be multiplied by."""
    highest = np.abs(columns).max(0, initial=0)
    numbers = np.rint(columns * (127 / np.where(highest, highest, 1)).astype(columns.dtype))
    return numbers.astype(np.int64), highest.astype(np.float64) / 127


@pytest.mark.parametrize("rounded", [False, True])
def test_the_largest_numbers_do_not_overflow(rounded: bool) -> None:
    x, weight = np.full((3, 512), -7.0), np.full((512, 40), 5.0)
    weight[:, ::2] = -5
    out = product(x, *pack_matrix(weight, rounded), np.zeros(40))
    np.testing.assert_allclose(out, x @ weight)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize(("K", "N"), [(36, 45), (516, 545)])
def test_a_row_has_the_same_bits_among_up_to_33(kind: type, rounded: bool, K: int, N: int) -> None:
    """In a matrix of which the next panel is fetched, and in one of which it is not."""
    x, weight = random(1, 33, K, kind=kind), random(2, K, N, kind=kind)
    packed, scale = pack_matrix(weight, rounded)
    every = product(x, packed, scale, weight[0])
    for M in range(1, 33):
        some = np.full_like(every[:M], np.nan)
        affine(x[:M], packed, scale, weight[0], some, ALONE)
        assert (some == every[:M]).all()


@pytest.mark.skipif("+fma" not in cpu_target.target_context.codegen().magic_tuple()[2], reason="products are rounded")
def test_four_products_are_summed_and_added_to_the_sum_so_far() -> None:
    """The order decides the bits of every text that was ever found."""
    x, weight = random(1, 9, 40, kind=np.float64), random(2, 40, 1, kind=np.float64)
    for row, found in zip(x, product(x, *pack_matrix(weight, False), np.zeros(1))[:, 0], strict=True):
        products = [Fraction(a) * Fraction(b) for a, b in zip(row.tolist(), weight[:, 0].tolist(), strict=True)]
        total = 0.0
        for k in range(0, 40, 4):
            four = 0.0
            for place in (k + 1, k, k + 2, k + 3):
                four = float(products[place] + Fraction(four))
            total += four
        assert found == total


def test_rows_that_are_not_contiguous_are_refused() -> None:
    """The instructions would read other numbers."""
    x, weight = random(1, 8, 3, kind=np.float64), random(2, 8, 5, kind=np.float64)
    with pytest.raises(TypingError, match=r"x is array.* must be C-contiguous"):
        affine(x.T, *pack_matrix(weight, False), weight[0], np.empty((3, 5)), ALONE)


def product(x: np.ndarray, packed: Panels, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """What `affine` writes, which must be the same bits for every row alone."""
    out = np.full((len(x), len(bias)), np.nan, x.dtype)
    affine(x, packed, scale, bias, out, ALONE)
    for row in range(len(x)):
        alone = np.empty_like(out[:1])
        affine(x[row:row + 1], packed, scale, bias, alone, ALONE)
        assert (alone[0] == out[row]).all()
    return out


@pytest.mark.parametrize("rounded", [False, True])
def test_panels_begin_with_a_cache_line(rounded: bool) -> None:
    for _ in range(20):
        packed, _ = pack_matrix(random(1, 8, 40, kind=np.float32), rounded)
        assert packed.ctypes.data % 64 == 0
