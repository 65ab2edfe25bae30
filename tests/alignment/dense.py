"""Word alignment written out: every prior by its explicit sum, every pair of words in a dictionary. Slow, and plain.

Words are numbers; a pair is (source, target). None stands for no source word.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

from pipeline.alignment.bitext import Bitext, Side

Pair = tuple[Sequence[int], Sequence[int]]
Table = dict[tuple[int | None, int], float]


def side(sentences: Sequence[Sequence[int]], dtype: type = np.int32) -> Side:
    return Side(np.array(list(chain(*sentences)), dtype), np.cumsum([0, *map(len, sentences)], dtype=np.int64))


def bitext(pairs: Sequence[Pair], dtype: type = np.int32) -> Bitext:
    return Bitext(side([source for source, _ in pairs], dtype), side([target for _, target in pairs], dtype))


def corpora(words: int = 4, longest: int = 4, most: int = 6) -> st.SearchStrategy[list[Pair]]:
    """Corpora of few words, so that they meet often; sentences may be empty."""
    sentence = st.lists(st.integers(0, words - 1), max_size=longest)
    return st.lists(st.tuples(sentence, sentence), min_size=1, max_size=most)


def feature(i: int, j: int, m: int, n: int) -> float:
    return -abs(i / n - j / m)


def prior(i: int, m: int, n: int, tension: float, null: float) -> list[float]:
    """Of no source word, then of each."""
    if m == 0:
        return [1.0]
    weights = [math.exp(tension * feature(i, j, m, n)) for j in range(1, m + 1)]
    return [null, *((1 - null) * weight / sum(weights) for weight in weights)]


class Expected(NamedTuple):
    log_likelihood: float
    counts: Table
    feature: float


def expect(pairs: Sequence[Pair], table: Table, tension: float, null: float) -> Expected:
    log_likelihood, total_feature, counts = 0.0, 0.0, defaultdict(float)
    for source, target in pairs:
        for i, f in enumerate(target, 1):
            candidates = [None, *source]
            joint = [p * table[e, f] for p, e in zip(prior(i, len(source), len(target), tension, null), candidates,
                                                     strict=True)]
            log_likelihood += math.log(sum(joint))
            for j, (e, weight) in enumerate(zip(candidates, joint, strict=True)):
                counts[e, f] += weight / sum(joint)
                if j:
                    total_feature += weight / sum(joint) * feature(i, j, len(source), len(target))
    return Expected(log_likelihood, dict(counts), total_feature)


def uniform(pairs: Sequence[Pair]) -> Table:
    """The table that training starts from."""
    types = len({f for _, target in pairs for f in target})
    return {(e, f): 1 / types for source, target in pairs for f in target for e in (None, *source)}


def _rows(counts: Table) -> dict[int | None, list[tuple[int, float]]]:
    rows = defaultdict(list)
    for (e, f), count in counts.items():
        rows[e].append((f, count))
    return rows


def maximise(counts: Table, alpha: float) -> Table:
    """Relative frequencies, or for alpha > 0 exp(E[log theta]) under the Dirichlet posterior."""
    table = {}
    for e, row in _rows(counts).items():
        total = sum(count + alpha for _, count in row)
        for f, count in row:
            if alpha > 0:
                table[e, f] = math.exp(_digamma(count + alpha) - _digamma(total))
            else:
                table[e, f] = count / total if total else 0.0
    return table


def divergence(counts: Table, alpha: float) -> float:
    """Kullback-Leibler divergence of the Dirichlet posteriors of all rows from their prior."""
    result = 0.0
    for row in _rows(counts).values():
        total = sum(count + alpha for _, count in row)
        result += math.lgamma(total) - math.lgamma(alpha * len(row))
        for _, count in row:
            result += math.lgamma(alpha) - math.lgamma(count + alpha)
            result += count * (_digamma(count + alpha) - _digamma(total))
    return result


def _digamma(x: float) -> float:
    return torch.digamma(torch.tensor(x, dtype=torch.float64)).item()
