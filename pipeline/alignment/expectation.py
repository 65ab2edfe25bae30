"""The two steps of an iteration: the expected links of every cell, and the probabilities that are fitted to them.

Expected counts are added as integers, in units of 2^-32: their sums do not depend on the order, and any number of
threads gives the same result.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.diagonal import Prior, Shapes
from pipeline.compiled import njit

UNIT = 2.0 ** 32
"""Integer counts per expected link. 2^31 links of one pair of words would overflow."""
_SMALLEST = 1e-150
"""Lower bound of the weights of variational Bayes, which are about exp(-1 / alpha): products with a prior must be
positive."""


@njit(cache=True, nogil=True)
def expect(shapes: Shapes, prior: Prior, shape_of: NDArray[np.int32], cells: NDArray[np.int32],
           probabilities: NDArray[np.float64], counts: NDArray[np.int64],
           mass: NDArray[np.int64]) -> tuple[float, float]:
    """Add the expected links of some pairs.

    Args:
        shape_of: shape of every pair.
        cells: place of every cell's entry (`lexicon.Cells`), none unknown.
        probabilities: of the entries of these pairs.
        counts: their expected links, in units; updated.
        mass: expected words with a source word at every position of every shape, in units; updated.

    Returns:
        The log-likelihood of the pairs in nats, and the expectation of h summed over their target words.
    """
    weights = np.empty(shapes.m.max() + 1)
    log_likelihood, feature, base = 0.0, 0.0, 0
    for shape in shape_of:
        m, n = shapes.m[shape], shapes.n[shape]
        for i in range(n):
            position = shapes.starts[shape] + i
            diagonal = (i + 1) * m // n
            total = weights[0] = prior.null[shape] * probabilities[cells[base + i]]
            near = prior.left[position]
            for j in range(diagonal, 0, -1):
                weights[j] = near * probabilities[cells[base + j * n + i]]
                total += weights[j]
                near *= prior.decay[shape]
            near = prior.right[position]
            for j in range(diagonal + 1, m + 1):
                weights[j] = near * probabilities[cells[base + j * n + i]]
                total += weights[j]
                near *= prior.decay[shape]
            log_likelihood += np.log(total)
            for j in range(m + 1):
                weights[j] /= total
                counts[cells[base + j * n + i]] += np.int64(weights[j] * UNIT + 0.5)
                if j:
                    feature -= weights[j] * abs((i + 1) / n - j / m)
            mass[position] += np.int64((1 - weights[0]) * UNIT + 0.5)
        base += (m + 1) * n
    return log_likelihood, feature


@njit(cache=True, nogil=True)
def spread(counts: NDArray[np.int64], entries: NDArray[np.int32], total: NDArray[np.int64]) -> None:
    """Add the counts of some entries to those of all."""
    for place, entry in enumerate(entries):
        total[entry] += counts[place]


@njit(cache=True, nogil=True)
def maximise(starts: NDArray[np.int64], first: int, last: int, counts: NDArray[np.int64], alpha: float,
             probabilities: NDArray[np.float64]) -> None:
    """Set the probabilities of the rows first .. last - 1 from their counts, and the counts to 0.

    With alpha = 0 these are relative frequencies; otherwise exp(E[log theta]) under the posterior of a symmetric
    Dirichlet prior over the words that occur with the row's word (variational Bayes).

    Args:
        starts: of the lexicon.
        counts: expected links in units, shape (entries).
        probabilities: shape (entries); written.
    """
    for row in range(first, last):
        begin, end = starts[row], starts[row + 1]
        if begin == end:
            continue
        total = np.int64(0)
        for entry in range(begin, end):
            total += counts[entry]
        if alpha > 0:
            scale = digamma(total / UNIT + alpha * (end - begin))
            without_links = max(np.exp(digamma(alpha) - scale), _SMALLEST)  # 90 % of the entries
        for entry in range(begin, end):
            count = counts[entry]
            counts[entry] = 0
            if alpha == 0:
                probabilities[entry] = count / total if total else 0.0
            elif count == 0:
                probabilities[entry] = without_links
            else:
                probabilities[entry] = max(np.exp(digamma(count / UNIT + alpha) - scale), _SMALLEST)


@njit(cache=True, nogil=True)
def choose(shapes: Shapes, prior: Prior, shape_of: NDArray[np.int32], cells: NDArray[np.int32],
           probabilities: NDArray[np.float64], links: NDArray[np.int32]) -> None:
    """Write the most probable source position of every target word, from 0, or -1 for none.

    Args:
        probabilities: of the entries of these pairs and, at the end, 0 for the unknown ones, whose place is -1.
        links: shape (target words); written. Ties are decided for no link, then for the first position.
    """
    base, word = 0, 0
    for shape in shape_of:
        m, n = shapes.m[shape], shapes.n[shape]
        for i in range(n):
            position = shapes.starts[shape] + i
            diagonal = (i + 1) * m // n
            best, at = prior.null[shape] * probabilities[cells[base + i]], 0
            near = prior.left[position]
            for j in range(diagonal, 0, -1):
                weight = near * probabilities[cells[base + j * n + i]]
                if weight > best or (weight == best and j < at):
                    best, at = weight, j
                near *= prior.decay[shape]
            near = prior.right[position]
            for j in range(diagonal + 1, m + 1):
                weight = near * probabilities[cells[base + j * n + i]]
                if weight > best:
                    best, at = weight, j
                near *= prior.decay[shape]
            links[word] = at - 1
            word += 1
        base += (m + 1) * n


@njit(cache=True, nogil=True)
def digamma(x: float) -> float:
    """Derivative of log Gamma for x > 0, to 1e-11: recurrence, then asymptotic series."""
    result = 0.0
    while x < 7:
        result -= 1 / x
        x += 1
    square = 1 / (x * x)
    tail = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132)))))
    return result + np.log(x) - 0.5 / x - tail
