"""What a lattice does not hold: the lengths outside its window, and its own counts after others were tried."""

import numpy as np
import pytest
import torch
from lattices import counted, lattice, random_corpus
from sentences import sources

from pipeline.count_model.lengths import LengthRegression
from pipeline.decoding.lattice import Settings, windowed
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine
from pipeline.evaluation.analyses.lattice.reach import prior_share, words_within


def test_words_of_sentences_whose_length_is_within_a_window() -> None:
    model = lattice(counts=counted(random_corpus())._replace(lengths=LengthRegression(1.0, 0.0)))
    lengths = np.array([[10, 13], [10, 14], [30, 36], [30, 37]])
    searches = {"fixed": Settings(), "a_fifth": Settings(relative_window=0.2), "wide": Settings(window=4)}
    assert words_within(model, lengths, searches) == {
        "fixed": pytest.approx(0.13), "a_fifth": pytest.approx(0.49), "wide": pytest.approx(0.27)}
    assert words_within(model, lengths[:0], searches) == dict.fromkeys(searches, 0)


@pytest.mark.usefixtures("engine")
def test_an_opened_model_searches_the_counts_that_are_tried() -> None:
    model, source = open_engine(lattice(counts=counted(random_corpus())).float()), sources(4, 7)
    found = []
    for share in (0.0, 0.9, 0.0):
        with prior_share(model, share):
            found.append(windowed(model, source, LengthLimit(2.0, 5), candidates=3, window=1)[0])
    assert torch.equal(found[0], found[2]) and not torch.equal(found[0], found[1])


def test_a_share_of_the_prior_is_tried_and_put_back() -> None:
    own = counted(random_corpus(), diagonal=0.25)
    model = lattice(counts=own)
    with pytest.raises(ZeroDivisionError), prior_share(model, 0.5):
        assert model.counts.diagonal == 0.5 and model.counts.lexicon is own.lexicon
        raise ZeroDivisionError
    assert model.counts is own
