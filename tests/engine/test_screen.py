"""The best word by way of rounded products: the exact projection's, however close the others come."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.matrix import affine
from pipeline.engine.packing import pack_decoder
from pipeline.engine.reading import ALONE, COLUMNS, Packed
from pipeline.engine.screen import best_words, count_above, logit_of

KINDS = st.sampled_from([np.float32, np.float64])
DEPTH = 32


def decoder_of(projection: np.ndarray, bias: np.ndarray) -> Packed:
    """A decoder without layers worth mentioning that projects by a matrix (D, V), with a bias (V,)."""
    D = len(projection)
    block = [np.zeros(shape, projection.dtype) for shape in (D, D, (D, D), D, (D, D), D)]
    packed = pack_decoder([[block] * 3], projection.T, projection[:1], projection[:2], projection, rounded=False)
    assert packed is not None
    return packed._replace(output_bias=bias)


def both_ways(x: np.ndarray, packed: Packed) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The words that are found, what is left of logits and bounds, and all logits as they are."""
    exact = np.empty((len(x), len(packed.output_bias)), x.dtype)
    affine(x, packed.outputs, packed.output_scale, packed.output_bias, exact, ALONE)
    logits, bounds = np.empty_like(exact), np.empty((len(x), len(packed.screen.lost)), x.dtype)
    words = np.empty(len(x), np.int64)
    best_words(x, packed, logits, bounds, words, ALONE)
    return words, logits, bounds, exact


@st.composite
def projections(draw: Any) -> tuple[np.ndarray, Packed]:
    """States and a projection some of whose columns are the same, or as good as the same, or far too long."""
    kind, choose = draw(KINDS), np.random.default_rng(draw(st.integers(0, 999)))
    V, M = draw(st.integers(1, 4 * COLUMNS)), draw(st.integers(1, 6))
    projection = choose.normal(size=(DEPTH, V)).astype(kind)
    like, apart = choose.integers(0, V, V), draw(st.sampled_from([0.0, 1e-7, 1e-4, 1e-2]))
    close = choose.random(V) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    projection[:, close] = projection[:, like[close]] + apart * choose.normal(size=(DEPTH, V))[:, close]
    projection *= np.where(choose.random(V) < 0.1, draw(st.sampled_from([1.0, 0.0, 1e3])), 1).astype(kind)
    bias = draw(st.sampled_from([0.0, 1.0, 50.0])) * choose.normal(size=V).astype(kind)
    bias[1:][choose.random(V - 1) < draw(st.sampled_from([0.1, 1.0]))] = draw(st.sampled_from([0.0, -np.inf]))
    x = draw(st.sampled_from([0.0, 1e-3, 1.0, 30.0])) * choose.normal(size=(M, DEPTH))
    return x.astype(kind), decoder_of(projection, bias.astype(kind))


@given(projections())
def test_it_is_the_best_of_all_logits(made: tuple[np.ndarray, Packed]) -> None:
    words, logits, bounds, exact = both_ways(*made)
    assert words.tolist() == exact.argmax(1).tolist()  # the first of equal ones
    for m, word in enumerate(words):
        panel = word // COLUMNS * COLUMNS
        assert logits[m, panel:panel + COLUMNS].tolist() == exact[m, panel:panel + COLUMNS].tolist()
        assert all(exact[m, i * COLUMNS:(i + 1) * COLUMNS].max() <= bound for i, bound in enumerate(bounds[m]))


@given(projections(), st.integers(0, 999), st.integers(1, 200))
def test_how_many_are_above_another(made: tuple[np.ndarray, Packed], seed: int, most: int) -> None:
    x, packed = made
    _, logits, bounds, exact = both_ways(x, packed)
    for m in range(len(x)):
        word = seed * (m + 1) % exact.shape[1]
        logit = logit_of(x, m, packed, logits, word)
        assert logit == exact[m, word]
        assert min(count_above(x, m, packed, logits, bounds, logit, most), most) == min((exact[m] > logit).sum(), most)


def test_rounding_alone_would_be_wrong_and_most_panels_are_left_alone() -> None:
    """Words of a trained model's kind: what the screen is for, and what it must not miss."""
    choose = np.random.default_rng(1)
    projection = choose.normal(size=(DEPTH, 100 * COLUMNS)).astype(np.float32)
    packed, x = decoder_of(projection, np.zeros(100 * COLUMNS, np.float32)), choose.normal(size=(400, DEPTH))
    words, _, bounds, exact = both_ways(x.astype(np.float32), packed)
    assert (words == exact.argmax(1)).all()
    rough = packed._replace(outputs=packed.screen.panels, output_scale=packed.screen.scale)
    guesses = np.empty_like(exact)
    affine(x.astype(np.float32), rough.outputs, rough.output_scale, rough.output_bias, guesses, ALONE)
    assert 0 < (guesses.argmax(1) != words).sum() < 40
    assert (bounds >= exact.max(1)[:, None]).mean() < 0.05
