"""Shortlists against their definition in dictionaries."""

from collections import defaultdict

import numpy as np
import pytest
from lattices import counted, random_corpus

from pipeline.count_model.model import CountModel
from pipeline.count_model.shortlist import Shortlist
from pipeline.errors import PipelineError
from pipeline.vocabulary import EOS, PAD, SPECIALS

V = 40
COPIES = np.where(np.arange(V) % 3 == 0, np.arange(V), -1).astype(np.int32)


def candidates(counts: CountModel) -> tuple[dict[int, dict[int, float]], dict[int, int]]:
    """Per source piece, the summed probabilities of its words under all offsets; per word, how often it is listed."""
    sums, listed = defaultdict[int, dict[int, float]](lambda: defaultdict(float)), defaultdict[int, int](int)
    first, _, (starts, items, probabilities) = counts.lexicon
    for piece in range(len(first) - 1):
        for row in range(first[piece], first[piece + 1]):
            for entry in range(starts[row], starts[row + 1]):
                sums[piece][int(items[entry])] += float(probabilities[entry])
                listed[int(items[entry])] += 1
    return sums, listed


@pytest.mark.parametrize(("n", "frequent"), [(0, 0), (2, 0), (3, 5), (100, 1), (1, 100)])
def test_a_shortlist_is_that_of_the_definition(n: int, frequent: int) -> None:
    counts = counted(random_corpus(vocabulary=V), vocabulary=V, copies=COPIES)
    sums, listed = candidates(counts)
    shortlist = Shortlist(counts, n, frequent)
    for source in ([], [EOS], [9, 20, 9, 31, EOS], [12, 13, EOS, PAD]):
        expected = {*range(len(SPECIALS)), *sorted(range(V), key=lambda word: (-listed[word], word))[:frequent], 39}
        for piece in (PAD, *source):  # PAD is the empty word, to which unlinked words are linked
            expected |= set(sorted(sums[piece], key=lambda word: (-sums[piece][word], word))[:n])
        expected |= {int(COPIES[piece]) for piece in source if COPIES[piece] >= 0}
        found = shortlist(np.array(source, np.int64), [39])
        assert found.tolist() == sorted(expected) and found.dtype == np.int64


def test_numbers_below_zero_are_mistakes() -> None:
    counts = counted(random_corpus(vocabulary=V), vocabulary=V)
    for numbers in ((-1, 5), (5, -1)):
        with pytest.raises(PipelineError, match="must be 0 or more"):
            Shortlist(counts, *numbers)
