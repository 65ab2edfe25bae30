"""N-grams, which several metrics and analyses count."""

from collections import Counter
from collections.abc import Sequence


def n_grams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """How often a sentence has each of its n-grams.

    >>> n_grams(["a", "b", "a", "b"], 2)
    Counter({('a', 'b'): 2, ('b', 'a'): 1})
    """
    return Counter(zip(*(words[first:] for first in range(n)), strict=False))
