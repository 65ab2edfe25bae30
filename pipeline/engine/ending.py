"""How a greedy step of several slots ends a sentence, compiled for one row: both greedy searches call it."""


import numpy as np

from pipeline.compiled import njit
from pipeline.engine.reading import Floats


@njit(cache=True, nogil=True)
def slots_before_end(by_word: Floats, by_end: Floats) -> int:
    """The number of slots that keep their words, 0 to z, if all later slots hold the end symbol.

    Only end symbols may follow an end symbol. Where the best word of each slot breaks this rule, the best of the z + 1
    steps that keep it is taken; of equally good ones the one with the fewest words.

    Args:
        by_word: (z,), what the best word of each slot except the end symbol adds to the score.
        by_end: (z,), what the end symbol adds.
    """
    kept, highest = 0, -np.inf
    for count in range(len(by_word) + 1):
        score = by_word[:count].sum() + by_end[count:].sum()
        if score > highest:
            kept, highest = count, score
    return kept
