"""Of a small model on a CPU every decoder is compiled: in one table, ratios compare algorithms and not engines."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from searches import ALGORITHMS, IN_ONE_CALL, LIMIT, decoder, searched_by
from sentences import sources
from torch import Tensor

from pipeline.decoding import greedy
from pipeline.engine import bounds, door, helpers, team
from pipeline.engine.door import use_engine
from pipeline.engine.helpers import using_all_cores
from pipeline.model.formats import COMPILED, in_format
from pipeline.model.layers import DecoderLayer, EncoderLayer
from pipeline.model.masked import MaskedTransformer
from pipeline.model.transformer import Transformer


def came_back(*_: Any, **__: Any) -> Tensor:
    raise AssertionError("came back to Python")


@pytest.mark.parametrize("quantization", COMPILED)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("lengths", [(5,), (3, 6)], ids=["one sentence", "a batch"])
def test_no_decoders_layers_are_computed_by_torch(tiny: Callable[..., Transformer], monkeypatch: pytest.MonkeyPatch,
                                                  algorithm: str, lengths: tuple[int, ...], quantization: str) -> None:
    model, decode = searched_by(algorithm, tiny), decoder(algorithm, quantization)
    for layer in (EncoderLayer, DecoderLayer):
        monkeypatch.setattr(layer, "__call__", came_back)
    monkeypatch.setattr(DecoderLayer, "after_self_attention", came_back)
    found = decode(model, sources(*lengths))
    assert len(found.tokens) == len(lengths) and torch.isfinite(found.scores[found.ended]).all()


@pytest.mark.parametrize("quantization", COMPILED)
@pytest.mark.parametrize("algorithm", IN_ONE_CALL)
def test_one_sentence_does_not_come_back_between_steps(tiny: Callable[..., Transformer],
                                                       monkeypatch: pytest.MonkeyPatch, algorithm: str,
                                                       quantization: str) -> None:
    model, decode = searched_by(algorithm, tiny), decoder(algorithm, quantization)
    for network in (Transformer, MaskedTransformer):
        for verb in ("step", "advance"):
            monkeypatch.setattr(network, verb, came_back)
    decode(model, sources(5))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_quantised_text_is_the_same_by_either_engine_and_in_any_batch(tiny: Callable[..., Transformer],
                                                                        monkeypatch: pytest.MonkeyPatch,
                                                                        algorithm: str) -> None:
    model, decode, source = searched_by(algorithm, tiny), decoder(algorithm, "int8"), sources(9, 6, 3)
    with use_engine("torch"):
        expected = decode(model, source).best_words()
    for most in (64, 0):  # where exact steps would come from torch, quantised ones stay compiled
        monkeypatch.setattr(bounds, "of", lambda width, most=most: bounds.Bounds(most, most, most))
        monkeypatch.setattr(door, "_LIGHT", 0)
        assert decode(model, source).best_words() == expected
        for sentence, length, words in zip(source, (9, 6, 3), expected, strict=True):
            found = decode(model, sentence[None, :length])
            assert found.best_words() == [words]
            if found.verification is not None:
                verifier = in_format(getattr(model, "verifier", model), "int8")
                assert greedy.search(verifier, sentence[None, :length], LIMIT).best_words() == [words]


def shared_products() -> int:
    """The number of products that the team has computed."""
    members = helpers._helpers._team
    return int(members[team._WORD]) >> 32 if len(members) else 0


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("algorithm", "quantization"), [
    *((algorithm, "float32") for algorithm in IN_ONE_CALL), ("greedy", "int8"), ("lattice", "int8")])
def test_a_search_has_the_same_bits_with_helpers(tiny: Callable[..., Transformer], algorithm: str,
                                                 quantization: str) -> None:
    """In 8 bits one search with a decoder's layers and one with a scorer's, which all others share."""
    model, decode = searched_by(algorithm, tiny).float(), decoder(algorithm, quantization)
    for length in (1, 5, 9):
        with using_all_cores():
            before, alone = shared_products(), decode(model, sources(length))
        assert shared_products() == before
        shared = decode(model, sources(length))
        assert shared_products() > before
        assert torch.equal(shared.tokens, alone.tokens) and torch.equal(shared.scores, alone.scores)


def test_there_are_decoders() -> None:
    """Or the tests above would say nothing."""
    assert {"greedy", "pair_beam", "gad", "lattice", "lattice_gad", "counts_gad", "mask_predict"} <= {*ALGORITHMS}
