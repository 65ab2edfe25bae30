"""Parts of the compiled beam search; the search itself is held to the one in Python by `test_whole`."""

import numpy as np
import pytest

from pipeline.engine.best import best_places


@pytest.mark.parametrize("size", [7, 64, 65, 300])
def test_the_best_places_are_those_of_a_stable_sort(size: int) -> None:
    choose = np.random.default_rng(size)
    for k in (1, 3, 6):
        values = choose.integers(-4, 5, size).astype(np.float32)
        values[:3] = -np.inf
        excluded = int(choose.integers(-1, size))
        places = np.empty(k, np.int64)
        best_places(values, excluded, places)
        others = np.delete(np.arange(size), [excluded] * (excluded >= 0))
        assert places.tolist() == others[np.argsort(-values[others], kind="stable")][:k].tolist()
