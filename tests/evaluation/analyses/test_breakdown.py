"""The parts of a search's time, on a clock that only the parts move."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lattices import lattice
from sentences import sources
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.analyses.lattice.breakdown import MEASURED, METHODS, PARTS, breakdown, choose
from pipeline.evaluation.analyses.parts import Stopwatch, Watched, WatchedSearch, time_parts
from pipeline.vocabulary import PAD

CPU = torch.device("cpu")
LIMIT = LengthLimit(ratio=2.0, extra=5, longest=20)


@dataclass
class Slow:
    """A model whose parts take 1, 10, 100 and 1000 seconds, times the next pace; searching takes 10,000."""

    paces: list[float]
    now: float = 0.0
    log: list[str] = field(default_factory=list)
    kind: str = "lattice"

    def clock(self) -> float:
        return self.now

    def length(self, source: Tensor) -> Tensor:
        return self._take("length", 1, torch.tensor([3]))

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        return self._take("candidates", 10, (torch.full((1, positions, k), 7), torch.zeros(1, positions, k)))

    def encode(self, source: Tensor) -> str:
        return self._take("encode", 100, "memory")

    def edges(self, memory: str, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        assert memory == "memory"
        return self._take("edges", 1000, (torch.zeros(1), torch.zeros(1), torch.zeros(1)))

    def search(self, model: Any, source: Tensor) -> Hypotheses:
        """What a decoder asks of a lattice model."""
        positions = int(model.length(source))
        model.edges(model.encode(source), model.candidates(source, positions, 2)[0])
        self.now += 10_000 * self.paces.pop(0)
        one = torch.ones(1, 1)
        return Hypotheses(torch.full((1, 1, 3), 7), one.long() * 3, one, one.bool(), torch.ones(1))

    def _take(self, part: str, seconds: float, result: Any) -> Any:
        self.log.append(part)
        self.now += seconds * self.paces[0]
        return result


def test_every_part_gets_its_own_time_and_search_what_is_left() -> None:
    # Two sentences to warm up with, then three rounds of two sentences.
    slow = Slow([50, 50, 1, 2, 3, 2, 9, 5])
    sentences = [torch.tensor([[7, 3]]), torch.tensor([[8, 9, 3]])]
    watch = Stopwatch(MEASURED, CPU, slow.clock)
    timed = Watched(slow, watch, METHODS)
    search = WatchedSearch(lambda source: slow.search(timed, source), watch)
    (seconds,) = time_parts([search], sentences, repetitions=3, warmup=2)
    once = [100, 11, 1000, 10_000]
    assert dict(zip(PARTS, once, strict=True)) == {"encoder": 100, "look_up": 11, "scorer": 1000, "viterbi": 10_000}
    assert seconds == pytest.approx(np.array([[3 * one for one in once], [2 * one for one in once]]))
    assert slow.log == ["length", "encode", "candidates", "edges"] * 8


def test_a_stopwatch_changes_nothing() -> None:
    model, source = lattice(), sources(5, 2, 7)
    decoder = make_decoder("lattice3", {"algorithm": "lattice", "candidates": 3, "nbest": 2}, LIMIT)
    watch = Stopwatch(MEASURED, CPU)
    timed, plain = decoder(Watched(model, watch, METHODS), source), decoder(model, source)
    assert torch.equal(timed.tokens, plain.tokens)
    torch.testing.assert_close(timed.scores, plain.scores, rtol=0, atol=1e-12)  # of one sentence or of a batch
    assert all(seconds > 0 for seconds in watch.seconds.values())


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 80), st.integers(1, 12))
def test_chosen_sentences_are_spread_over_the_bins(lengths: list[int], count: int, width: int) -> None:
    bins = (np.array(lengths) - 1) // width
    chosen = choose(np.array(lengths), bins, count)
    taken, sizes = (np.bincount(of, minlength=int(bins.max()) + 1) for of in (bins[chosen], bins))
    assert len(set(chosen)) == len(chosen) <= max(count, len(set(bins.tolist())))
    share = taken.max()
    assert taken.tolist() == np.minimum(sizes, share).tolist()  # no bin is cut shorter than another
    assert len(chosen) == len(lengths) or np.minimum(sizes, share + 1).sum() > count  # and one more would be too many
    assert bins[chosen[0]] == bins.max()


@pytest.mark.parametrize("lengths", [(3, 9, 1, 6, 2, 4, 5), (4,)])
def test_bins_hold_every_test_sentence(lengths: tuple[int, ...]) -> None:
    model, batch = lattice(dtype=torch.float32), sources(*lengths)
    singles = [row[row != PAD].unsqueeze(0) for row in batch]
    decoder = make_decoder("lattice3", {"algorithm": "lattice", "candidates": 3}, LIMIT)
    finding = breakdown("lattice3", decoder, model, singles, count=3, bin_words=2, repetitions=1, warmup=1, device=CPU)
    predicted = [int(model.length(source)) for source in singles]
    bins = finding.metric["bins"]
    for name, one in bins.items():
        low, high = map(int, name.split("-"))
        assert one["test_sentences"] == sum(low <= length <= high for length in predicted)
        assert 0 < one["sentences"] <= one["test_sentences"]
        assert all(one[f"{part}_milliseconds"] > 0 for part in PARTS)
    assert sum(one["test_sentences"] for one in bins.values()) == len(singles)
    assert finding.metric["sentences"] == sum(one["sentences"] for one in bins.values())
