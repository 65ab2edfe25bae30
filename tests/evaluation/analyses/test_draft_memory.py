"""Peak memory, against sums by hand."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sentences import sources

from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.evaluation.analyses.drafting.draft_memory import LiveMemory, draft_memory, search_bytes, weight_bytes
from pipeline.evaluation.speed import Contestant
from pipeline.model.transformer import Transformer

CPU = torch.device("cpu")
PYTHON = 40_000
"""The most bytes of Python's own objects."""
LIMIT = LengthLimit(ratio=2.0, extra=5, longest=20)


@pytest.mark.parametrize("inference", [True, False])
def test_tensors_count_while_they_live(inference: bool) -> None:
    with LiveMemory():  # what torch imports when a mode is first used
        torch.zeros(1)
    before = torch.ones(100, 100)
    with torch.inference_mode(inference), LiveMemory() as live:
        first = torch.zeros(1000)
        view, of_old = first.view(10, 100), before[:5].expand(2, 5, 100)
        assert live.bytes == 4000  # views take nothing, and what was there is not counted
        second = view + 1
        assert live.bytes == 8000
        del first
        assert live.bytes == 8000  # its view holds the storage
        del view
        assert live.bytes == 4000
        second.add_(1)
        before.mul_(2)
        assert live.bytes == 4000
        third = torch.empty(10, dtype=torch.float64)
        torch.add(third, 1, out=third)
        assert live.bytes == 4080
        del second, third, of_old
    assert live.bytes == 0 and 8000 <= live.peak < 8000 + PYTHON


def test_arrays_count_at_their_peak_and_tensors_of_them_once() -> None:
    with LiveMemory() as live:
        first = torch.from_numpy(np.zeros(100_000))
        first.add_(1)
        np.zeros(300_000)  # freed before the next call, and counted with what is alive then
        second = torch.zeros(50_000, dtype=torch.float64)
        assert live.bytes == 400_000
        del first, second
        np.zeros(200_000)
    assert 3_200_000 <= live.peak < 3_200_000 + PYTHON


def test_the_most_of_all_sentences_counts() -> None:
    def translate(source: torch.Tensor) -> Hypotheses:
        torch.zeros(source.shape[1], 250_000)
        one = torch.ones(1, 1)
        return Hypotheses(one, one, one, one, one)

    search = Contestant("toy", "zeros", translate)
    sizes = [search_bytes(search, [torch.ones(1, n) for n in lengths], CPU) for lengths in ((1,), (3,), (1, 3, 2))]
    assert sizes == pytest.approx([1e6, 3e6, 3e6], abs=PYTHON)


def test_a_longer_sentence_takes_more_and_weights_count_once(tiny: Callable[..., Transformer]) -> None:
    model = tiny(tied_embeddings="all")
    search = Contestant("ar", "greedy", lambda source: greedy.search(model, source, LIMIT))
    short, long = (search_bytes(search, [sources(length)], CPU) for length in (3, 12))
    assert 0 < short < long
    tensors = {id(parameter): 8 * parameter.numel() for parameter in model.parameters()}
    assert weight_bytes(model) == sum(tensors.values()) < weight_bytes(tiny(tied_embeddings="none"))
    finding = draft_memory([(search, model)], [sources(3), sources(12)], CPU)
    found = finding.metric["ar"]["greedy"]
    assert found["weight_bytes"] == weight_bytes(model) and abs(found["search_peak_bytes"] - long) < PYTHON
    assert found["peak_bytes"] == found["weight_bytes"] + found["search_peak_bytes"]
