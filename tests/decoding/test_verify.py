"""Draft and verify on real networks: whatever is drafted, the result is greedy search's, in as many calls at most."""

import random
from collections.abc import Callable

import pytest
import torch
from drafters import ScriptedDrafter, drafter, told, unrounded
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import BATCHES, sources
from ties import TIE, gap
from torch import Tensor

from pipeline.decoding import gad, greedy, iad, verify
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

pytestmark = pytest.mark.usefixtures("engine")

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.5, extra=4, longest=47)

ORDERS = {"left_to_right": 1, "right_to_left": -1}
"""Of one word a step, and the direction in which they are read."""
BLOCKS = st.integers(1, 30)
VERIFIERS = st.fixed_dictionaries({"seed": st.integers(0, 5), "norm": st.sampled_from(["pre", "post"]),
                                   "positions": st.sampled_from(["sinusoidal", "learned"])})


def outputs(found: Hypotheses, step: int = 1) -> list[tuple[int, ...]]:
    """The output of each sentence, its end symbol included, in reading order or (`step` = -1) backwards."""
    return [(*row[:length][::step], *[EOS] * ended) for row, length, ended in zip(
        found.tokens[:, 0].tolist(), found.lengths[:, 0].tolist(), found.ended[:, 0].tolist(), strict=True)]


def assert_greedy(found: Hypotheses, expected: Hypotheses, step: int = 1) -> None:
    """The same translations and scores, in as many calls at most, and a true account of how they came about."""
    assert torch.equal(found.tokens, expected.tokens) and torch.equal(found.lengths, expected.lengths)
    assert torch.equal(found.ended, expected.ended)
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-9)
    assert (found.calls <= expected.calls).all()
    assert_accounts(found, step)


def assert_accounts(found: Hypotheses, step: int) -> None:
    """The rounds tell each sentence's calls, and its accepted tokens are its output."""
    assert found.verification is not None
    accepted_tokens: list[list[int]] = [[] for _ in found.calls]
    calls = torch.zeros_like(found.calls)
    for one in found.verification.rounds:
        calls[one.sentences] += 1
        assert one.verdict.shape == (len(one.sentences), one.draft.shape[1] + 1) and (one.accepted >= 1).all()
        for sentence, verdict, accepted in zip(one.sentences.tolist(), one.verdict.tolist(), one.accepted.tolist(),
                                               strict=True):
            accepted_tokens[sentence] += verdict[:accepted]
    assert torch.equal(calls, found.calls)
    assert [tuple(row) for row in accepted_tokens] == outputs(found, step)


def verified(network: Transformer, proposals: Callable[..., object], source: Tensor) -> Hypotheses:
    scripted = ScriptedDrafter(list(range(len(source))), proposals)  # type: ignore[arg-type]
    return verify.verify(network, scripted, source, network.encode(source), LIMIT)


# In double precision: always.

@given(BATCHES, VERIFIERS, st.sampled_from(sorted(ORDERS)))
@settings(max_examples=20)
def test_nothing_drafted_is_greedy_search(tiny: Tiny, source: Tensor, changes: dict[str, object], order: str) -> None:
    network = tiny(order, **changes)
    found, expected = verify.search(network, source, LIMIT), greedy.search(network, source, LIMIT)
    assert_greedy(found, expected, ORDERS[order])
    assert torch.equal(found.calls, expected.calls)
    assert found.verification is not None and not found.verification.drafter_calls.any()


@given(BATCHES, VERIFIERS, st.sampled_from(sorted(ORDERS)),
       st.integers(1, 4), st.integers(0, 5), st.integers(0, 30))
@settings(max_examples=25)
def test_copies_of_the_source(tiny: Tiny, source: Tensor, changes: dict[str, object], order: str, shortest: int,
                              more: int, block: int) -> None:
    network = tiny(order, **changes)
    found = iad.search(network, source, LIMIT, iad.Settings(shortest, shortest + more, block))
    assert_greedy(found, greedy.search(network, source, LIMIT), ORDERS[order])


@given(BATCHES, VERIFIERS, BLOCKS, st.sampled_from(["causal", "bidirectional"]), st.integers(0, 2), st.integers(1, 2),
       st.booleans(), st.integers(0, 3))
@settings(max_examples=40)
def test_drafts_of_a_network(tiny: Tiny, source: Tensor, changes: dict[str, object], block: int, prefix: str,
                             encoder_layers: int, decoder_layers: int, chained: bool, seed: int) -> None:
    network = tiny(**changes)
    model = drafter(network, prefix=prefix, chained=chained, seed=seed, encoder_layers=encoder_layers,
                    decoder_layers=decoder_layers, norm=changes["norm"], positions=changes["positions"])
    found = gad.search(model, source, LIMIT, gad.Settings(block))
    assert_greedy(found, greedy.search(network, source, LIMIT))
    assert found.verification is not None
    assert torch.equal(found.verification.drafter_calls, found.calls)


@given(BATCHES, VERIFIERS, BLOCKS, st.sampled_from([0.1, 0.4, 1.0]), st.integers(0, 99))
@settings(max_examples=30)
def test_drafts_that_are_partly_wrong(tiny: Tiny, source: Tensor, changes: dict[str, object], k: int, wrong: float,
                                      seed: int) -> None:
    """From now and then to always: then they are random tokens, PAD, end symbols and what comes after them too."""
    network = tiny(**changes)
    expected = greedy.search(network, source, LIMIT)
    assert_greedy(verified(network, told(outputs(expected), k, wrong, seed), source), expected)


@given(BATCHES, VERIFIERS, BLOCKS)
@settings(max_examples=15)
def test_an_oracle_needs_no_call_too_many(tiny: Tiny, source: Tensor, changes: dict[str, object], k: int) -> None:
    """Of every call, k tokens that were drafted and one of the verifier's own: ceil(tokens / (k + 1)) calls."""
    network = tiny(**changes)
    expected = greedy.search(network, source, LIMIT)
    for row, output in enumerate(outputs(expected)):
        alone = source[row:row + 1, :int((source[row] != PAD).sum())]
        found = verified(network, told([output], k), alone)
        assert outputs(found) == [output]
        assert found.calls.tolist() == [-(-len(output) // (k + 1))]
    assert_greedy(verified(network, told(outputs(expected), k), source), expected)


@given(BATCHES, VERIFIERS, st.integers(1, 12), st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_the_batch_does_not_matter(tiny: Tiny, source: Tensor, changes: dict[str, object], k: int,
                                   shuffle: random.Random) -> None:
    """Alone, together, and in another order; near the limit of its batch a sentence is drafted less."""
    network = tiny(**changes)
    model = drafter(network, decoder_layers=2, block=k, norm=changes["norm"], positions=changes["positions"])
    order = shuffle.sample(range(len(source)), len(source))
    together, mixed = gad.search(model, source, LIMIT), gad.search(model, source[order], LIMIT)
    for row, place in enumerate(order):
        with unrounded():
            alone = gad.search(model, source[place:place + 1, :int((source[place] != PAD).sum())], LIMIT)
        assert outputs(together)[place] == outputs(mixed)[row] == outputs(alone)[0]
        assert together.calls[place] == mixed.calls[row] >= alone.calls[0]
        for other in (mixed.scores[row], alone.scores[0]):
            torch.testing.assert_close(together.scores[place], other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("prefix", ["causal", "bidirectional"])
def test_the_drafters_of_these_tests_are_sometimes_right(tiny: Tiny, prefix: str) -> None:
    """Otherwise the tests above would say little."""
    network, source = tiny(), sources(*range(1, 12))
    found = gad.search(drafter(network, prefix=prefix, decoder_layers=2), source, LIMIT)
    assert found.verification is not None
    accepted = torch.cat([one.accepted for one in found.verification.rounds])
    assert accepted.max() >= 3 and len(accepted.unique()) >= 3
    assert 0 < int(found.ended.sum()) < len(source)


# In single precision: up to ties.

@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("prefix", ["causal", "bidirectional"])
def test_single_precision(tiny: Tiny, seed: int, prefix: str) -> None:
    network, source = tiny(dtype=torch.float32, seed=seed), sources(*range(1, 25))
    expected = outputs(greedy.search(network, source, LIMIT))
    model = drafter(network, prefix=prefix, decoder_layers=2, block=10)
    for found in (gad.search(model, source, LIMIT), iad.search(network, source, LIMIT)):
        for row, (mine, theirs) in enumerate(zip(outputs(found), expected, strict=True)):
            if mine != theirs:
                assert gap(network, source[row], mine, theirs) < TIE


def test_what_single_precision_is_forgiven(tiny: Tiny) -> None:
    """The measure of a tie by hand: it is that of the first words that differ."""
    network, source = tiny(), sources(4)
    logits = network(source, torch.tensor([[8, 9]]))[0]
    assert gap(network, source[0], (8, 9, 7), (8, 11)) == pytest.approx((logits[1, 9] - logits[1, 11]).abs().item())


# Edges.

@pytest.mark.parametrize("shape", [(0, 0), (0, 4)])
@pytest.mark.parametrize("prefix", ["causal", "bidirectional"])
@pytest.mark.parametrize("encoder_layers", [0, 1])
def test_no_sentences(tiny: Tiny, shape: tuple[int, int], prefix: str, encoder_layers: int) -> None:
    network, empty = tiny(), torch.empty(shape, dtype=torch.long)
    model = drafter(network, prefix=prefix, encoder_layers=encoder_layers)
    for found in (verify.search(network, empty, LIMIT), iad.search(network, empty, LIMIT),
                  gad.search(model, empty, LIMIT)):
        assert found.tokens.shape[:2] == (0, 1) and found.calls.shape == (0,)
        assert found.lengths.shape == found.scores.shape == found.ended.shape == (0, 1)
        assert found.verification is not None and found.verification.rounds == []


@pytest.mark.parametrize("prefix", ["causal", "bidirectional"])
@pytest.mark.parametrize("seed", range(4))
def test_up_to_the_last_position_of_both_networks(tiny: Tiny, prefix: str, seed: int) -> None:
    """The model that does not end is cut by its limit, however long a draft would have been, in ragged batches too."""
    network, source = tiny(seed=seed, max_length=24), sources(1, 14, 5, 20)
    with torch.no_grad():
        network.projection.weight[EOS] = 0
    model, limit = drafter(network, prefix=prefix, decoder_layers=2, max_length=24), LengthLimit(2.0, 20, 23)
    for block in (1, 4, 10, 30):
        assert_greedy(gad.search(model, source, limit, gad.Settings(block)), greedy.search(network, source, limit))


@pytest.mark.parametrize("block", [0, 1, 5])
def test_a_source_longer_than_its_translation_may_become(tiny: Tiny, block: int) -> None:
    network, source, limit = tiny(), sources(20, 3, 11), LengthLimit(0.2, 1)
    assert_greedy(iad.search(network, source, limit, iad.Settings(block=block)), greedy.search(network, source, limit))


@pytest.mark.parametrize("token", [20, 99, -1])
@pytest.mark.parametrize("acceptance", [verify.EXACT, verify.Acceptance(3, 1.0)])
def test_tokens_that_the_verifier_does_not_know(tiny: Tiny, token: int, acceptance: verify.Acceptance) -> None:
    network, source = tiny(), sources(3, 5)
    scripted = ScriptedDrafter([0, 1], lambda sentence, accepted: [8, token] if sentence else [8])
    with pytest.raises(PipelineError, match=f"the drafter proposed token.* {token}.*they need the same vocabulary"):
        verify.verify(network, scripted, source, network.encode(source), LIMIT, acceptance)


@pytest.mark.parametrize("order", ["interleaved", "double_token", "semi_autoregressive2"])
def test_a_verifier_of_two_words_a_step(tiny: Tiny, order: str) -> None:
    network, source = tiny(order), sources(3, 5)
    for search in (verify.search, iad.search):
        with pytest.raises(PipelineError, match="2 words per step; choose one of one word per step"):
            search(network, source, LIMIT)
