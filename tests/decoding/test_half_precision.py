"""Search in two bytes per number: log-probabilities are computed and summed in more."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from lattices import lattice
from masked import Scripted as ScriptedMasked
from masked import masked, only
from orders import EVERY_ORDER
from scripted import Scripted, random_script
from sentences import sources

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.model.transformer import Transformer

LIMIT = LengthLimit(ratio=2.0, extra=4, longest=30)


@pytest.mark.parametrize("entry", [
    {"algorithm": "beam", "beams": 4, "nbest": 4, "length_penalty": {"alpha": 0.0}},
    {"algorithm": "lattice", "candidates": 4, "nbest": 4},
    {"algorithm": "mask_predict", "candidates": 4, "nbest": 4}])
def test_sums_have_more_digits_than_their_parts(tiny: Callable[..., Transformer], entry: dict[str, Any]) -> None:
    model = {"beam": lambda: tiny(dtype=torch.float32, seed=2), "lattice": lambda: lattice(seed=2),
             "mask_predict": lambda: masked(dtype=torch.float32)}[entry["algorithm"]]()
    found = make_decoder("decoder", {**entry, "quantization": "bfloat16"}, LIMIT)(model, sources(9, 6))
    scores = found.scores[found.scores > -torch.inf]
    assert len(scores) and not torch.equal(scores, scores.bfloat16().to(scores.dtype))


@pytest.mark.parametrize(("algorithm", "order"), [
    ("greedy", "left_to_right"), ("greedy", "interleaved"), ("jacobi", "left_to_right"), ("mask_predict", None)])
def test_scores_are_those_of_the_same_logits_in_more_digits(algorithm: str, order: str | None) -> None:
    def decoded(dtype: torch.dtype) -> Hypotheses:
        if order is None:
            random = torch.rand(2, 5, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            model: Any = ScriptedMasked(only(5), lambda call, row: random[call])
            settings = {"iterations": 2, "candidates": 1}
        else:
            model, settings = Scripted(EVERY_ORDER[order], random_script(EVERY_ORDER[order], 4, 8, 12)), {}
        step = model.step
        model.step = lambda *inputs: step(*inputs).bfloat16().to(dtype)
        return make_decoder("decoder", {"algorithm": algorithm, **settings}, LIMIT)(model, sources(6))

    half, single = decoded(torch.bfloat16), decoded(torch.float32)
    assert torch.equal(half.tokens, single.tokens) and half.lengths.item() > 1
    torch.testing.assert_close(half.scores, single.scores, rtol=1e-5, atol=0)
