"""Search with a part of the vocabulary: that of a model all of whose other words are impossible."""

import threading
from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentences import sources

from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.engine.choice import Engine
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.5, extra=8, longest=23)
SOURCE = sources(6, 9, 4, 7)
DECODERS: dict[str, dict[str, Any]] = {
    "greedy": {"algorithm": "greedy"}, "beam": {"algorithm": "beam", "beams": 4, "nbest": 2},
    "pair_beam": {"algorithm": "pair_beam", "beams": 4, "nbest": 2}}


class Some:
    """The special ids, those of the source, and every word whose id is a multiple of a number."""

    def __init__(self, step: int, vocabulary: int) -> None:
        self.step, self.vocabulary = step, vocabulary

    def __call__(self, source: NDArray[np.int64], more: Iterable[int] = ()) -> NDArray[np.int64]:
        return np.unique([*range(7), *source, *more, *range(7, self.vocabulary, self.step)]).astype(np.int64)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_shortlist_is_searched_as_if_there_were_no_other_words(
        engine: Engine, tiny: Tiny, decoder: str, dtype: torch.dtype) -> None:
    order, V = "interleaved" if decoder == "pair_beam" else "left_to_right", 150
    network = tiny(order, vocabulary=V, dtype=dtype, seed=4)
    short = make_decoder(decoder, DECODERS[decoder], LIMIT, Some(3, V))
    found = short(network, SOURCE)
    for row, source in enumerate(SOURCE):
        ids = torch.from_numpy(Some(3, V)(source.numpy()))
        bias = torch.full((V,), -torch.inf, dtype=dtype).index_fill_(0, ids, 0)
        network.output_bias = bias
        network.clear_caches()
        one = source[source != PAD].unsqueeze(0)
        expected, alone = make_decoder(decoder, DECODERS[decoder], LIMIT)(network, one), short(network, one)
        scores = expected.scores[0]  # computed now
        network.output_bias = None
        network.clear_caches()
        for rank in range(found.tokens.shape[1]):
            words = expected.tokens[0, rank, :expected.lengths[0, rank]].tolist()
            assert found.tokens[row, rank, :found.lengths[row, rank]].tolist() == words
            assert alone.tokens[0, rank, :alone.lengths[0, rank]].tolist() == words
            assert set(words) <= set(ids.tolist())
        torch.testing.assert_close(found.scores[row], scores, rtol=0, atol=1e-9 if dtype.itemsize > 4 else 1e-4)


@pytest.mark.parametrize("decoder", ["greedy", "beam"])
def test_the_whole_vocabulary_is_a_shortlist(engine: Engine, tiny: Tiny, decoder: str) -> None:
    network = tiny(vocabulary=70, dtype=torch.float32, seed=4)
    found = make_decoder(decoder, DECODERS[decoder], LIMIT, Some(1, 70))(network, SOURCE[:1])
    expected = make_decoder(decoder, DECODERS[decoder], LIMIT)(network, SOURCE[:1])
    assert torch.equal(found.tokens, expected.tokens)
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=0 if engine == "compiled" else 1e-5)


def test_a_prefix_and_terms_are_part_of_every_shortlist(tiny: Tiny) -> None:
    network, prefixes, terms = tiny(vocabulary=150), [[8, 11], [], [13], []], [[[17, 14]], [[20]], [], []]
    found = make_decoder("beam", DECODERS["beam"], LIMIT, Some(50, 150))(network, SOURCE, prefixes, terms)
    for row, prefix in enumerate(prefixes):
        words = found.tokens[row, 0, :found.lengths[row, 0]].tolist()
        assert words[:len(prefix)] == prefix
        assert all(set(term) <= set(words) for term in terms[row])


def test_what_cannot_search_a_shortlist_says_so() -> None:
    with pytest.raises(PipelineError, match=r"decoders\.mine: iad cannot search a shortlist; choose greedy or a beam"):
        make_decoder("mine", {"algorithm": "iad"}, LIMIT, Some(3, 20))


def test_a_shortlist_of_a_rounded_model_is_rounded_by_every_engine(engine: Engine, tiny: Tiny) -> None:
    network = tiny(vocabulary=150, dtype=torch.float32, seed=4)
    entry = {**DECODERS["greedy"], "quantization": "int8"}
    network.output_bias = torch.full((150,), -torch.inf).index_fill_(
        0, torch.from_numpy(Some(3, 150)(SOURCE[0].numpy())), 0)
    network.clear_caches()
    expected = make_decoder("greedy", entry, LIMIT)(network, SOURCE[:1])
    network.output_bias = None
    network.clear_caches()
    found = make_decoder("greedy", entry, LIMIT, Some(3, 150))(network, SOURCE[:1])
    assert found.best_words() == expected.best_words()
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-5)


def test_models_that_are_not_compiled_are_searched_by_one_thread(engine: Engine, tiny: Tiny) -> None:
    """Torch's states belong to a model, not to a thread."""
    by = set[int]()

    class Watching(Some):
        def __call__(self, source: NDArray[np.int64], more: Iterable[int] = ()) -> NDArray[np.int64]:
            by.add(threading.get_ident())
            return super().__call__(source, more)

    with patch.object(torch, "get_num_threads", return_value=3):
        make_decoder("greedy", DECODERS["greedy"], LIMIT, Watching(3, 150))(tiny(vocabulary=150), SOURCE)
    assert (by == {threading.get_ident()}) == (engine != "compiled")
