"""Search in two bytes per number: the scores of paths are summed in more."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from lattices import lattice
from sentences import sources

from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.model.transformer import Transformer

LIMIT = LengthLimit(ratio=2.0, extra=4, longest=30)


@pytest.mark.parametrize("entry", [
    {"algorithm": "beam", "beams": 4, "nbest": 4, "length_penalty": {"alpha": 0.0}},
    {"algorithm": "lattice", "candidates": 4, "nbest": 4}])
def test_sums_have_more_digits_than_their_parts(tiny: Callable[..., Transformer], entry: dict[str, Any]) -> None:
    model = lattice(seed=2) if entry["algorithm"] == "lattice" else tiny(dtype=torch.float32, seed=2)
    found = make_decoder("decoder", {**entry, "quantization": "bfloat16"}, LIMIT)(model, sources(9, 6))
    scores = found.scores[found.scores > -torch.inf]
    assert len(scores) and not torch.equal(scores, scores.bfloat16().to(scores.dtype))
