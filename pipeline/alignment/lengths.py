"""How long a translation will be: target length as a linear function of source length, by least squares.

The paper takes lengths from L - D to L + D around the prediction L; how much of the training data D = 3 covers, the
residual quantiles tell.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


class LengthRegression(NamedTuple):
    """L = slope * S + intercept, in words of the vocabulary without end symbols."""

    slope: float
    intercept: float

    def predict(self, sources: NDArray[np.integer]) -> NDArray[np.int64]:
        """Whole target lengths of at least 1 for source lengths, rounded half up.

        >>> LengthRegression(0.5, 1.0).predict(np.array([0, 3, 10])).tolist()
        [1, 3, 6]
        """
        return np.maximum(np.floor(self.slope * sources + self.intercept + 0.5), 1).astype(np.int64)

    def residuals(self, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> NDArray[np.int64]:
        """Target lengths less the predicted ones."""
        return targets - self.predict(sources)


def fit_lengths(sources: NDArray[np.integer], targets: NDArray[np.integer]) -> LengthRegression:
    """The least-squares line through (source length, target length).

    Sources that are all of one length leave the slope open: it is then the ratio of the means.

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
