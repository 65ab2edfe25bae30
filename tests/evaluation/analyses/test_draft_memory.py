"""Peak memory, against sums by hand."""

from collections.abc import Callable

import pytest
import torch
from sentences import sources

from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.evaluation.analyses.drafting.draft_memory import LiveTensors, draft_memory, search_bytes, weight_bytes
from pipeline.evaluation.speed import Contestant
from pipeline.model.transformer import Transformer

CPU = torch.device("cpu")
LIMIT = LengthLimit(ratio=2.0, extra=5, longest=20)


@pytest.mark.parametrize("inference", [True, False])
def test_tensors_count_while_they_live(inference: bool) -> None:
    before = torch.ones(100, 100)
    with torch.inference_mode(inference), LiveTensors() as live:
        first = torch.zeros(1000)
        view, of_old = first.view(10, 100), before[:5].expand(2, 5, 100)
        assert live.bytes == live.peak == 4000  # views take nothing, and what was there is not counted
        second = view + 1
        assert live.bytes == 8000
        del first
        assert live.bytes == 8000  # its view holds the storage
        del view
        assert live.bytes == 4000
        second.add_(1)
        before.mul_(2)
        assert live.bytes == 4000 and live.peak == 8000
        third = torch.empty(10, dtype=torch.float64)
        torch.add(third, 1, out=third)
        assert live.bytes == 4080
        del second, third, of_old
    assert (live.bytes, live.peak) == (0, 8000)


def test_the_most_of_all_sentences_counts() -> None:
    def translate(source: torch.Tensor) -> Hypotheses:
        torch.zeros(source.shape[1], 250)
        one = torch.ones(1, 1)
        return Hypotheses(one, one, one, one, one)

    search = Contestant("toy", "zeros", translate)
    sizes = [search_bytes(search, [torch.ones(1, n) for n in lengths], CPU) for lengths in ((1,), (3,), (1, 3, 2))]
    assert sizes == [1000, 3000, 3000]


def test_a_longer_sentence_takes_more_and_weights_count_once(tiny: Callable[..., Transformer]) -> None:
    model = tiny(tied_embeddings="all")
    search = Contestant("ar", "greedy", lambda source: greedy.search(model, source, LIMIT))
    short, long = (search_bytes(search, [sources(length)], CPU) for length in (3, 12))
    assert 0 < short < long
    assert short == search_bytes(search, [sources(3)], CPU)
    tensors = {id(parameter): 8 * parameter.numel() for parameter in model.parameters()}
    assert weight_bytes(model) == sum(tensors.values()) < weight_bytes(tiny(tied_embeddings="none"))
    finding = draft_memory([(search, model)], [sources(3), sources(12)], CPU)
    assert finding.metric["ar"]["greedy"] == {"weight_bytes": weight_bytes(model), "search_peak_bytes": long,
                                              "peak_bytes": weight_bytes(model) + long}
