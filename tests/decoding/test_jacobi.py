"""Parallel Jacobi decoding: greedy search's output, in the iterations that the method takes by hand."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import lattice
from sentences import BATCHES, sources
from torch import Tensor

from pipeline.decoding import counts_jacobi, greedy, jacobi
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.verify import verify
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.5, extra=4, longest=47)
SETTINGS = st.builds(jacobi.Settings, block=st.integers(0, 30), hybrid=st.booleans(),
                     start=st.sampled_from(jacobi.STARTS), ratio=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
                     extra=st.integers(1, 4))


@torch.no_grad()
def iterations(network: Transformer, source: Tensor, slots: int, wanted: jacobi.Settings) -> int:
    """Jacobi's iterations of one sentence, each over the whole target, until its greedy translation has settled.

    Of a block only what is inside it is put in; the word that an iteration settles after it begins the next one.
    """
    words = source[source != EOS].tolist()
    expected = -int(-wanted.ratio * len(words) // 1) + wanted.extra
    limit = int(LIMIT.steps(source, network.order))
    memory, settled, count, iterate = network.encode(source), [], 0, {}
    while len(settled) < slots:
        place = len(settled)
        end = (place // wanted.block + 1) * wanted.block if wanted.block else expected
        if wanted.block and wanted.hybrid and place >= expected:
            end = place
        first = words if wanted.start == "source" else []
        inputs = [iterate.get(i, first[i] if i < len(first) else PAD) for i in range(place, max(place, end - 1))]
        inputs = inputs[:LIMIT.longest - place]
        logits = network.step(torch.tensor([[*network.order.starts, *settled, *inputs]]), network.start(memory))[0]
        predicted = logits[place:].argmax(1).tolist()
        count += 1
        kept = 1
        while kept <= len(inputs) and predicted[kept - 1] == inputs[kept - 1] and predicted[kept - 1] != EOS:
            kept += 1
        settled += predicted[:min(kept, limit - place)]
        iterate = {place + i: word for i, word in enumerate(predicted)}
    return count


@given(BATCHES, st.integers(0, 5), st.sampled_from(["left_to_right", "right_to_left"]), SETTINGS)
@settings(max_examples=40)
def test_greedy_searchs_output_in_the_iterations_of_the_method(tiny: Tiny, source: Tensor, seed: int, order: str,
                                                               wanted: jacobi.Settings) -> None:
    network = tiny(order, seed=seed)
    found, expected = jacobi.search(network, source, LIMIT, wanted), greedy.search(network, source, LIMIT)
    for name in ("tokens", "lengths", "ended"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-9)
    assert (found.calls <= expected.calls).all()
    for row in range(len(source)):
        alone = source[row:row + 1, :max(1, int((source[row] != PAD).sum()))]
        steps = int(jacobi.search(network, alone, LIMIT, wanted).calls)
        assert steps == iterations(network, alone, int(expected.calls[row]), wanted)
        assert int(found.calls[row]) <= steps  # fewer where a random network says the padding of a shorter draft


def test_blocks_of_one_word_are_greedy_search(tiny: Tiny) -> None:
    network, source = tiny(), sources(5, 8)
    expected = greedy.search(network, source, LIMIT).calls
    assert torch.equal(jacobi.search(network, source, LIMIT, jacobi.Settings(block=1)).calls, expected)


def test_it_saves_calls(tiny: Tiny) -> None:
    """Random networks repeat themselves, and words that repeat are settled together."""
    network, source = tiny(seed=0), sources(7, 6, 9, 11)
    calls = jacobi.search(network, source, LIMIT, jacobi.Settings(block=5)).calls
    assert int(calls.sum()) < int(greedy.search(network, source, LIMIT).calls.sum())


BLOCKS = st.builds(jacobi.Blocks, block=st.integers(0, 30), hybrid=st.booleans())


@settings(max_examples=8)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9), seed=st.integers(0, 9), blocks=BLOCKS)
def test_greedy_searchs_output_from_counts(tiny: Tiny, lengths: list[int], seed: int, blocks: jacobi.Blocks) -> None:
    verifier, source, network = tiny(seed=seed), sources(*lengths), lattice(seed=seed)
    network.attach_verifier(verifier)
    expected = greedy.search(verifier, source, LIMIT)
    found = counts_jacobi.search(network, source, LIMIT, counts_jacobi.Settings(blocks.block, blocks.hybrid))
    for name in ("tokens", "lengths", "ended"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert (found.calls <= expected.calls).all()


def test_counts_that_know_the_translation_settle_it_at_once(tiny: Tiny) -> None:
    """The first call is over the words of all positions; what is right is accepted as it stands."""
    verifier, source = tiny(seed=0), sources(7, 6, 9)
    expected = greedy.search(verifier, source, LIMIT)
    words = expected.tokens[:, 0].masked_fill(
        torch.arange(expected.tokens.shape[2]) >= expected.lengths, PAD)
    drafter = jacobi.LastIterate(expected.lengths[:, 0] + 1, words, jacobi.Blocks())
    found = verify(verifier, drafter, source, verifier.encode(source), LIMIT)
    assert torch.equal(found.tokens, expected.tokens)
    assert (found.calls[expected.ended[:, 0]] == 1).all() and expected.ended.any()


def test_counts_without_a_verifier_are_refused() -> None:
    with pytest.raises(PipelineError, match="verifier: this lattice has none"):
        counts_jacobi.search(lattice(seed=0), sources(3), LIMIT)


@pytest.mark.parametrize(("wrong", "message"), [
    ({"block": -1}, "block: -1 must be at least 0"), ({"start": "x"}, "start: 'x' is unknown; choose one of"),
    ({"ratio": -1.0}, "ratio: -1.0 must be at least 0"), ({"extra": 0}, "extra: 0 must be at least 1")])
def test_what_cannot_be(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        jacobi.Settings(**wrong)  # type: ignore[arg-type]
