"""Sums of whole numbers: the same by whatever instructions a processor has."""

from typing import Any

import numpy as np
import pytest
from numba.core.registry import cpu_target

from pipeline.compiled import njit
from pipeline.engine import dot, tile
from pipeline.engine.packing import pack_matrix
from pipeline.engine.reading import COLUMNS

FEATURES = cpu_target.target_context.codegen().magic_tuple()[2]
WAYS = [(dot.dot_of_lanes, 4, True), (dot.dot_of_lanes, 8, True), (dot.dot_of_pairs, 8, "+avx2" in FEATURES),
        (dot.dot_of_bytes, 16, "+avx512vnni" in FEATURES),
        (dot.dot_of_bytes, 8, "+avxvnni" in FEATURES or "+avx512vnni" in FEATURES)]


@pytest.mark.parametrize(("way", "lanes", "there"), WAYS)
@pytest.mark.parametrize("rows", sorted({1, 2, 4, tile.MOST_ROWS}))
def test_sums_of_whole_numbers(monkeypatch: pytest.MonkeyPatch, way: Any, lanes: int, there: bool, rows: int) -> None:
    if not there:
        pytest.skip("this processor has no such instruction")
    monkeypatch.setattr(tile, "choose_dot", lambda features: (way, lanes))
    choose = np.random.default_rng(rows)
    K, N = 52, 2 * COLUMNS + 7
    weights = choose.integers(-127, 128, (K, N))
    weights[:, :4], weights[0] = 127, 127  # so that rounding to 8 bits changes nothing
    numbers = choose.integers(-127, 128, (rows + 2, K))
    numbers[1] = -127

    @njit
    def multiply(x: Any, factors: Any, weights: Any, scale: Any, bias: Any, out: Any) -> None:
        for panel in range(3):
            tile.multiply(rows, x, factors, 1, weights, panel, scale, bias, out)

    packed, scale = pack_matrix(weights.astype(np.float64), True)
    assert (scale == 1).all()
    out = np.full((rows + 2, N), np.nan)
    multiply(numbers.astype(np.int8), np.full(rows + 2, 0.5), packed, np.full(N, 4.0), np.full(N, 3.0), out)
    inside = slice(1, 1 + rows)
    assert (out[inside] == 2 * (numbers @ weights)[inside] + 3).all()
    assert np.isnan(np.delete(out, inside, 0)).all()


def test_a_processor_of_every_kind() -> None:
    assert dot.choose_dot("+avx2,+avx512vnni") == (dot.dot_of_bytes, 16)
    assert dot.choose_dot("+avx2,+avxvnni") == (dot.dot_of_bytes, 8)
    assert dot.choose_dot("+avx2,-avx512vnni,-avxvnni") == (dot.dot_of_pairs, 8)
    assert dot.choose_dot("+neon") == (dot.dot_of_lanes, 8)
