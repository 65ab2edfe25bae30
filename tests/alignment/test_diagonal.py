"""The prior by geometric series against its explicit sums."""

import math

import numpy as np
import pytest
from dense import bitext, feature, prior
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.alignment import diagonal

tensions = st.floats(0.1, 14)


@settings(max_examples=60)
@given(m=st.integers(1, 60), n=st.integers(1, 12), tension=tensions, null=st.sampled_from([0.0, 0.08, 0.5]))
def test_the_prior_equals_its_explicit_sum(m: int, n: int, tension: float, null: float) -> None:
    shapes, _ = diagonal.find_shapes([bitext([([0] * m, [0] * n)])])
    found = diagonal.tabulate(shapes, tension, null)
    for i in range(1, n + 1):
        here = i * m // n
        walked = [found.null[0]] + [0.0] * m
        for j in range(1, m + 1):
            near, steps = (found.left[i - 1], here - j) if j <= here else (found.right[i - 1], j - here - 1)
            walked[j] = near * found.decay[0] ** steps
        assert walked == pytest.approx(prior(i, m, n, tension, null), rel=1e-9)
        assert sum(walked) == pytest.approx(1, rel=1e-9)


def log_Z(i: int, m: int, n: int, tension: float) -> float:
    return math.log(sum(math.exp(tension * feature(i, j, m, n)) for j in range(1, m + 1)))


@settings(max_examples=60)
@given(m=st.integers(1, 60), n=st.integers(1, 12), tension=tensions, data=st.data())
def test_the_expected_feature_is_the_derivative_of_log_Z(m: int, n: int, tension: float, data: st.DataObject) -> None:
    shapes, _ = diagonal.find_shapes([bitext([([0] * m, [0] * n)])])
    mass = np.array(data.draw(st.lists(st.floats(0, 5), min_size=n, max_size=n)))
    found = diagonal.expected_feature(shapes, tension, mass)
    explicit = sum(weight * probability * feature(i, j, m, n) for i, weight in enumerate(mass, 1)
                   for j, probability in enumerate(prior(i, m, n, tension, 0.0)) if j)
    assert found == pytest.approx(explicit, rel=1e-9, abs=1e-12)
    step = 1e-4
    slope = sum(weight * (log_Z(i, m, n, tension + step) - log_Z(i, m, n, tension - step)) / (2 * step)
                for i, weight in enumerate(mass, 1))
    assert found == pytest.approx(slope, rel=1e-5, abs=1e-7)
