"""The length of a translation, predicted as a linear function of the source length by least squares.

The paper's lattices have lengths from L - D to L + D around the prediction L.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LengthRegression(NamedTuple):
    """L = slope * S + intercept, in words of the vocabulary without end symbols."""

    slope: float
    intercept: float

    def predict(self, sources: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the target length for each source length: rounded half up, at least 1.

        >>> LengthRegression(0.5, 1.0).predict(np.array([0, 3, 10])).tolist()
        [1, 3, 6]
        """
        return np.maximum(np.floor(self.slope * sources + self.intercept + 0.5), 1).astype(np.int64)

    def residuals(self, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return target lengths minus predicted lengths."""
        return targets - self.predict(sources)


def fit_lengths(sources: NDArray[np.integer], targets: NDArray[np.integer]) -> LengthRegression:
    """Fit the regression to pairs of lengths.

    If all sources have the same length the slope is not determined; it is then the ratio of the means.

    >>> fit_lengths(np.array([1, 2, 3]), np.array([3, 5, 7]))
    LengthRegression(slope=2.0, intercept=1.0)
    """
    x, y = sources.astype(np.float64), targets.astype(np.float64)
    spread = x - x.mean() if len(x) else x
    variance = float((spread * spread).sum())
    if variance == 0:
        return LengthRegression(float(y.mean() / max(x.mean(), 1)) if len(x) else 1.0, 0.0)
    slope = float((spread * y).sum()) / variance
    return LengthRegression(slope, float(y.mean() - slope * x.mean()))
