"""The regression of target lengths, against NumPy's and where there is no line."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.count_model.lengths import LengthRegression, fit_lengths

PAIRS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=2, max_size=30)


def fit(*pairs: tuple[int, int]) -> LengthRegression:
    lengths = np.array(pairs, np.int64).reshape(-1, 2)
    return fit_lengths(lengths[:, 0], lengths[:, 1])


@given(PAIRS)
def test_it_is_the_least_squares_line(pairs: list[tuple[int, int]]) -> None:
    assume(len({source for source, _ in pairs}) > 1)
    slope, intercept = np.polyfit(*np.array(pairs, float).T, 1)
    assert fit(*pairs) == pytest.approx((slope, intercept), rel=1e-6, abs=1e-6)


@given(PAIRS)
def test_the_order_and_the_number_of_times_do_not_show(pairs: list[tuple[int, int]]) -> None:
    found = fit(*pairs)
    assert fit(*pairs[::-1]) == pytest.approx(found, abs=1e-9)
    assert fit(*pairs * 3) == pytest.approx(found, abs=1e-9)


def test_sources_of_one_length() -> None:
    assert fit((4, 6)) == (1.5, 0.0)
    assert fit((4, 6), (4, 2), (4, 7)) == (1.25, 0.0)
    assert fit((0, 6), (0, 2)) == (4.0, 0.0)  # no word at all: any slope predicts the shortest
    assert fit((7, 0)) == (0.0, 0.0)


def test_no_pairs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit() == (1.0, 0.0)


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.int64])
def test_unsigned_lengths_do_not_wrap_around(kind: type) -> None:
    found = fit_lengths(np.array([1, 2, 3], kind), np.array([9, 6, 3], kind))
    assert found == pytest.approx((-3.0, 12.0))
    assert found.residuals(np.array([2, 4], np.int64), np.array([1, 9], np.int64)).tolist() == [-5, 8]


@given(st.floats(-3, 3), st.floats(-50, 50), st.lists(st.integers(0, 300), max_size=5))
def test_predictions_are_whole_and_at_least_one(slope: float, intercept: float, sources: list[int]) -> None:
    found = LengthRegression(slope, intercept).predict(np.array(sources, np.int64))
    assert found.dtype == np.int64 and (found >= 1).all()
    for source, length in zip(sources, found.tolist(), strict=True):
        assert length == 1 or abs(length - (slope * source + intercept)) <= 0.5 + 1e-9


def test_halves_are_rounded_up() -> None:
    assert LengthRegression(0.5, 2.0).predict(np.arange(5)).tolist() == [2, 3, 3, 4, 4]
    assert LengthRegression(-1.0, 1.0).predict(np.arange(3)).tolist() == [1, 1, 1]
