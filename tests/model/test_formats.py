"""Searching in two bytes: a model of its own, made once, in which exact decoders find what greedy search finds."""

from collections.abc import Callable

import pytest
import torch
from searches import ALGORITHMS, LIMIT, decoder, searched_by
from sentences import sources

from pipeline.decoding import greedy
from pipeline.errors import PipelineError
from pipeline.evaluation.exactness import count_ties
from pipeline.interop.transplant import HuggingFaceModel
from pipeline.model.formats import HALVES, in_format
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]


@pytest.mark.parametrize("quantization", HALVES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_decoder_searches_in_two_bytes(tiny: Tiny, algorithm: str, quantization: str) -> None:
    model, source = searched_by(algorithm, tiny), sources(9, 6, 3)
    before = [parameter.clone() for parameter in model.parameters()]
    found = decoder(algorithm, quantization)(model, source)
    assert len(found.tokens) == 3
    assert all(map(torch.equal, model.parameters(), before))
    if found.verification is not None:
        network = in_format(model, quantization)
        verifier = getattr(network, "verifier", network)
        assert verifier.projection.weight.dtype == HALVES[quantization]
        count_ties(verifier, source, greedy.search(verifier, source, LIMIT), found, algorithm)  # raises, or all is well


def test_it_is_made_once_follows_its_network_and_keeps_what_is_tied(tiny: Tiny) -> None:
    network = tiny(tied_embeddings="all")
    half = in_format(network, "bfloat16")
    assert in_format(network, "bfloat16") is half and in_format(network, "float16") is not half
    assert half.projection.weight is half.target_embedding.weight
    assert half.order_mask.dtype == torch.bool and network.projection.weight.dtype == torch.float64
    network.clear_caches()
    assert in_format(network, "bfloat16") is not half
    assert in_format(network, "float32") is network


def test_layers_of_another_library_stay_as_they_are() -> None:
    model = HuggingFaceModel.__new__(HuggingFaceModel)
    with pytest.raises(PipelineError, match="bfloat16 is for networks with the layers of this package"):
        in_format(model, "bfloat16")
