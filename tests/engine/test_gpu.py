"""On a GPU: every search by recorded steps finds what torch finds on a CPU, and waits for the GPU once per step."""

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from searches import ALGORITHMS, LIMIT, decoder, searched_by, short_and_long
from sentences import sources

from pipeline.decoding import greedy
from pipeline.decoding.settings import Decoder
from pipeline.engine.door import open_engine, use_engine
from pipeline.evaluation.exactness import count_ties
from pipeline.model.formats import HALVES, in_format
from pipeline.model.transformer import Transformer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
Tiny = Callable[..., Transformer]
SEVERAL = 3, 6, 9, 2, 4


@pytest.fixture(autouse=True)
def static() -> Iterator[None]:
    """The test networks are open for the engine of CPUs; what a run loads needs no such choice."""
    with use_engine("static"):
        yield


@pytest.mark.parametrize("lengths", [(5,), SEVERAL], ids=["one sentence", "a batch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_finds_what_torch_finds_on_a_cpu(tiny: Tiny, algorithm: str, lengths: tuple[int, ...]) -> None:
    model, decode, source = searched_by(algorithm, tiny), decoder(algorithm), sources(*lengths)
    with use_engine("torch"):
        expected = decode(model, source)
    model.to("cuda")
    for _ in range(3):  # computed, recorded, launched
        found = decode(model, source.cuda())
        assert found.best_words() == expected.best_words() and torch.equal(found.calls.cpu(), expected.calls)


def looks(decode: Decoder, model: Transformer, source: torch.Tensor) -> int:
    """How often a search waits for the GPU."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            decode(model, source)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(one.message) for one in caught)


@pytest.mark.parametrize("lengths", [(4,), SEVERAL], ids=["one sentence", "a batch"])
@pytest.mark.parametrize("algorithm", ["greedy", "beam", "pair_beam", "verify", "gad", "iad", "jacobi", "sample"])
def test_a_search_waits_once_per_step(tiny: Tiny, algorithm: str, lengths: tuple[int, ...]) -> None:
    model, source, calls, waits = searched_by(algorithm, tiny).to("cuda"), sources(*lengths).cuda(), [], []
    for decode in short_and_long(algorithm):
        for _ in range(3):
            found = decode(model, source)
        calls.append(int(found.calls.max()))
        waits.append(looks(decode, model, source))
    # The rest is what sentences cost that leave the batch; two waits per step would be far more.
    assert waits[1] - waits[0] <= calls[1] - calls[0] + 5 + len(lengths)
    assert waits[1] <= calls[1] + 20


def test_steps_are_recorded_and_read_what_they_should(tiny: Tiny) -> None:
    model = open_engine(tiny().to("cuda"))
    memory, tokens = model.encode(sources(5).cuda()), torch.tensor([[7]], device="cuda")
    seen = []
    for _ in range(3):
        state = model.start(memory)
        seen.append([model.step(tokens, state).clone() for _ in range(4)])
        [step] = state._space.steps.values()
        del state
    assert step.recording.graph is not None
    for one in seen[1:]:
        for mine, theirs in zip(one, seen[0], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


def test_what_has_no_state_is_recorded_too(tiny: Tiny) -> None:
    model, source = open_engine(tiny().to("cuda")), sources(5).cuda()
    seen = [model.encode(source).states for _ in range(4)]
    [(_, recording)] = model.recorder._known.values()
    assert recording.graph is not None
    for one in seen[1:]:
        torch.testing.assert_close(one, seen[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("quantization", [*HALVES, "int8"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_exact_decoders_are_exact_in_every_format(tiny: Tiny, algorithm: str, quantization: str) -> None:
    model, source = searched_by(algorithm, tiny).to("cuda"), sources(*SEVERAL).cuda()
    found = decoder(algorithm, quantization)(model, source)
    assert len(found.tokens) == len(SEVERAL)
    if found.verification is not None:
        network = in_format(model, quantization)
        verifier = getattr(network, "verifier", network)
        greedily = greedy.search(open_engine(verifier), source, LIMIT)
        count_ties(verifier, source, greedily, found, algorithm)  # raises, or all is well
