"""Sums of whole numbers: the same by whatever instructions a processor has."""

from typing import Any

import numpy as np
import pytest
from numba.core.registry import cpu_target

from pipeline.compiled import njit
from pipeline.engine import dot, tile
from pipeline.engine.matrix import affine
from pipeline.engine.packing import pack_matrix
from pipeline.engine.reading import ALONE, COLUMNS

FEATURES = cpu_target.target_context.codegen().magic_tuple()[2]
WAYS = [(dot.Dot(dot.dot_of_lanes, 4, 2, True), True), (dot.Dot(dot.dot_of_lanes, 8, 2, True), True),
        (dot.Dot(dot.dot_of_pairs, 8, 2, False), "+avx2" in FEATURES),
        (dot.Dot(dot.dot_of_bytes, 16, 1, True), "+avx512vnni" in FEATURES),
        (dot.Dot(dot.dot_of_bytes, 8, 1, True), "+avxvnni" in FEATURES or "+avx512vnni" in FEATURES)]


@pytest.mark.parametrize(("way", "there"), WAYS)
@pytest.mark.parametrize("rows", sorted({1, 2, 4, tile.MOST_ROWS}))
def test_sums_of_whole_numbers(monkeypatch: pytest.MonkeyPatch, way: dot.Dot, there: bool, rows: int) -> None:
    if not there:
        pytest.skip("this processor has no such instruction")
    monkeypatch.setattr(tile, "_DOT", way)
    choose = np.random.default_rng(rows)
    K, N = 52, 2 * COLUMNS + 7
    weights = choose.integers(-127, 128, (K, N))
    weights[:, :4], weights[0] = 127, 127  # so that rounding to 8 bits changes nothing
    numbers = choose.integers(-127, 128, (rows + 2, K))
    numbers[1] = -127

    @njit()
    def multiply(x: Any, of_rows: Any, weights: Any, scale: Any, bias: Any, out: Any) -> None:
        for panel in range(3):
            tile.multiply(rows, x, of_rows, 1, weights, panel, scale, bias, out, 0, K, False)

    packed, scale = pack_matrix(weights.astype(np.float64), True)
    assert (scale == 1).all()
    out = np.full((rows + 2, N), np.nan)
    of_rows = np.stack([np.full(rows + 2, 0.5), numbers.sum(1)], 1)
    multiply(numbers.astype(np.int8), of_rows, packed, np.full(N, 4.0), np.full(N, 3.0), out)
    inside = slice(1, 1 + rows)
    assert (out[inside] == 2 * (numbers @ weights)[inside] + 3).all()
    assert np.isnan(np.delete(out, inside, 0)).all()


@pytest.mark.parametrize("number", [np.float32, np.float64])
@pytest.mark.parametrize("rows", range(1, tile.MOST_ROWS + 1))
def test_parts_of_a_sum_are_the_sum(number: type, rows: int) -> None:
    """Every bit, whatever the parts are, and what is beside the rows and columns stays."""
    choose = np.random.default_rng(rows)
    K, N = 24, COLUMNS + 7
    weights = choose.standard_normal((K, N)).astype(number)
    x, scale, bias = (choose.standard_normal(shape).astype(number) for shape in ((rows + 2, K), N, N))
    packed, _ = pack_matrix(weights, False)

    @njit()
    def multiply(ends: Any, out: Any) -> None:
        for panel in range(2):
            begin = 0
            for end in ends:
                tile.multiply(rows, x, x[:0], 1, packed, panel, scale, bias, out, begin, end, end < K)
                begin = end

    found = [np.full((rows + 2, N), np.nan, number) for _ in range(3)]
    for ends, out in zip(([K], [8, 16, K], [4, 20, K]), found, strict=True):
        multiply(np.array(ends), out)
        assert out.tobytes() == found[0].tobytes()
    np.testing.assert_allclose(found[0][1:-1], (x @ weights * scale + bias)[1:-1], rtol=1e-4, atol=1e-4)
    assert np.isnan(found[0][[0, -1]]).all()


def test_a_row_of_a_wide_product_has_the_same_bits_whatever_the_others_are() -> None:
    """With its matrix in parts or in one, with rows of its group or alone."""
    choose = np.random.default_rng(1)
    K, N = 2 * 256 + 36, 512 + 7
    packed, scale = pack_matrix(choose.standard_normal((K, N)).astype(np.float32), False)
    x, bias = (choose.standard_normal(shape).astype(np.float32) for shape in ((10, K), N))
    found = {}
    for rows in range(1, 11):
        found[rows] = np.empty((rows, N), np.float32)
        affine(x[:rows], packed, scale, bias, found[rows], ALONE)
    assert all(one.tobytes() == found[10][:rows].tobytes() for rows, one in found.items())


def test_a_processor_of_every_kind() -> None:
    ways = {"+avx2,+avx512vnni": (dot.dot_of_bytes, 16), "+avx2,+avxvnni": (dot.dot_of_bytes, 8),
            "+avx2,-avx512vnni,-avxvnni": (dot.dot_of_pairs, 8), "+neon": (dot.dot_of_lanes, 8)}
    assert {features: dot.choose_dot(features)[:2] for features in ways} == ways
