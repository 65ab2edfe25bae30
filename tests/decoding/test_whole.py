"""Searches that are one compiled call: the same as those that come back to Python after every step."""

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from drafters import drafter, unrounded, with_heads
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import lattice
from masked import masked
from orders import EVERY_ORDER
from sentences import sources
from torch import Tensor

from pipeline.decoding import (
    beam,
    blockwise,
    counts_gad,
    gad,
    greedy,
    iad,
    jacobi,
    lattice_gad,
    mask_predict,
    pair_beam,
    speculative,
    verify,
)
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance
from pipeline.decoding.threaded import search_in_threads
from pipeline.engine import bounds
from pipeline.engine.door import use_engine
from pipeline.engine.network import Compiled
from pipeline.errors import PipelineError
from pipeline.model.settings import ACTIVATIONS, NORMS
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

Tiny = Callable[..., Transformer]
Search = Callable[[], Hypotheses]


def both_ways(search: Search, *networks: Transformer) -> tuple[Hypotheses, Hypotheses]:
    """What a search finds whole and step by step."""
    with unrounded():
        whole = search()
    for network in networks:
        network.reading = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    stepwise = search()
    for network in networks:
        del network.reading
    return whole, stepwise


def assert_same(whole: Hypotheses, stepwise: Hypotheses, atol: float = 1e-9) -> None:
    for name in ("tokens", "lengths", "ended", "calls"):
        assert torch.equal(getattr(whole, name), getattr(stepwise, name)), name
    torch.testing.assert_close(whole.scores, stepwise.scores, rtol=0, atol=atol)
    if stepwise.verification is None:
        return
    assert whole.verification is not None
    assert whole.verification.exact == stepwise.verification.exact
    assert torch.equal(whole.verification.drafter_calls, stepwise.verification.drafter_calls)
    for ours, theirs in zip(whole.verification.rounds, stepwise.verification.rounds, strict=True):
        kept = int(theirs.accepted)
        assert ours.draft.tolist() == theirs.draft.tolist() and int(ours.accepted) == kept
        assert ours.sentences.tolist() == [0]
        assert ours.verdict[:, :kept].tolist() == theirs.verdict[:, :kept].tolist()


PENALTIES = [beam.LengthPenalty("average", 1.0), beam.LengthPenalty("average", 0.0), beam.LengthPenalty("gnmt", 0.6)]
ACCEPTANCES = st.sampled_from([Acceptance(), Acceptance(3, 2.0), Acceptance(19, 30.0)])


@settings(max_examples=150)
@given(st.integers(1, 9), st.integers(0, 30), st.sampled_from(sorted(EVERY_ORDER)),
       st.sampled_from(NORMS), st.integers(1, 12), st.sampled_from([torch.float32, torch.float64]))
def test_greedy_search(tiny: Tiny, length: int, seed: int, order: str, norm: str, most: int,
                       dtype: torch.dtype) -> None:
    network, source = tiny(order, seed=seed, norm=norm, dtype=dtype), sources(length)
    limit = LengthLimit(ratio=0, extra=most, longest=47)
    found = both_ways(lambda: greedy.search(network, source, limit), network)
    assert_same(*found, atol=1e-9 if dtype is torch.float64 else 1e-6)


@settings(max_examples=150)
@given(st.integers(1, 9), st.integers(0, 30), st.sampled_from(sorted(EVERY_ORDER)), st.sampled_from(NORMS),
       st.integers(1, 14), st.integers(1, 6), st.integers(1, 6), st.sampled_from(PENALTIES))
def test_beam_search(tiny: Tiny, length: int, seed: int, order: str, norm: str, most: int, beams: int, nbest: int,
                     penalty: beam.LengthPenalty) -> None:
    network, source = tiny(order, seed=seed, norm=norm), sources(length)
    limit, wanted = LengthLimit(ratio=0, extra=most, longest=40), beam.Settings(beams, penalty, min(nbest, beams))
    assert_same(*both_ways(lambda: beam.search(network, source, limit, wanted), network))


PAIRS = sorted(name for name, order in EVERY_ORDER.items() if order.width == 2)


@settings(max_examples=100)
@given(st.integers(1, 9), st.integers(0, 30), st.sampled_from(PAIRS), st.sampled_from(NORMS), st.integers(1, 14),
       st.integers(1, 10), st.integers(1, 10), st.integers(1, 10), st.sampled_from(PENALTIES))
def test_beam_search_with_pairs(tiny: Tiny, length: int, seed: int, order: str, norm: str, most: int, beams: int,
                                hypotheses: int, nbest: int, penalty: beam.LengthPenalty) -> None:
    """Also where 3W pairs are more than there are words."""
    network, source = tiny(order, seed=seed, norm=norm), sources(length)
    limit = LengthLimit(ratio=0, extra=most, longest=40)
    wanted = pair_beam.Settings(beams, hypotheses, penalty, min(nbest, hypotheses))

    def search() -> Hypotheses:
        found = pair_beam.search(network, source, limit, wanted)
        void = found.scores == -torch.inf  # whatever stands where there is no hypothesis
        return dataclasses.replace(found, tokens=found.tokens.masked_fill(void.unsqueeze(2), PAD),
                                   lengths=found.lengths.masked_fill(void, 0))
    assert_same(*both_ways(search, network))


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 20), ACCEPTANCES, st.booleans(),
       st.sampled_from([47, 48, 12]))
def test_a_small_model_that_runs_ahead(tiny: Tiny, length: int, seed: int, block: int, acceptance: Acceptance,
                                       shared: bool, longest: int) -> None:
    """Also to the last place."""
    verifier, source = tiny(seed=seed), sources(length)
    network = drafter(verifier, seed=seed, decoder_layers=2 - shared, encoder_layers=1 - shared)
    limit = LengthLimit(ratio=2.0, extra=longest, longest=longest)
    wanted = speculative.Settings(block, acceptance)
    assert_same(*both_ways(lambda: speculative.search(network, source, limit, wanted), network))


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 12), ACCEPTANCES, st.booleans(),
       st.sampled_from([47, 48, 12]))
def test_blocks_of_masks(tiny: Tiny, length: int, seed: int, block: int, acceptance: Acceptance, chained: bool,
                         longest: int) -> None:
    verifier, source = tiny(seed=seed), sources(length)
    network = drafter(verifier, seed=seed, chained=chained)
    limit = LengthLimit(ratio=2.0, extra=longest, longest=longest)
    wanted = gad.Settings(block, acceptance)
    assert_same(*both_ways(lambda: gad.search(network, source, limit, wanted), network))


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 6), ACCEPTANCES, st.booleans(), st.sampled_from([47, 7]))
def test_heads(tiny: Tiny, length: int, seed: int, block: int, acceptance: Acceptance, chained: bool,
               longest: int) -> None:
    network, source = with_heads(tiny(seed=seed), 6, seed, chained), sources(length)
    limit = LengthLimit(ratio=2.0, extra=longest, longest=longest)
    wanted = blockwise.Settings(block, acceptance)
    assert_same(*both_ways(lambda: blockwise.search(network, source, limit, wanted), network))


@settings(max_examples=60)
@given(st.lists(st.integers(7, 13), max_size=14), st.integers(0, 9), st.integers(0, 6), st.integers(1, 2),
       st.integers(0, 4), ACCEPTANCES, st.sampled_from([47, 12]))
def test_copies_of_the_source(tiny: Tiny, words: list[int], seed: int, block: int, shortest: int, more: int,
                              acceptance: Acceptance, longest: int) -> None:
    """Few words, so that the output's last ones stand in the source: nowhere, once, and more often."""
    network, source = tiny(seed=seed), torch.tensor([[*words, EOS]])
    limit = LengthLimit(ratio=2.0, extra=longest, longest=longest)
    wanted = iad.Settings(shortest, shortest + more, block, acceptance)
    assert_same(*both_ways(lambda: iad.search(network, source, limit, wanted), network))


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 12), ACCEPTANCES, st.sampled_from([47, 7]))
def test_drafts_of_a_lattice_family(tiny: Tiny, length: int, seed: int, block: int, acceptance: Acceptance,
                                    longest: int) -> None:
    """From counts and from a lattice; also drafts that are longer than the lattice."""
    verifier, network, source = tiny(seed=seed), lattice(seed=seed), sources(length)
    network.attach_verifier(verifier)
    limit = LengthLimit(ratio=2.0, extra=longest, longest=longest)
    assert_same(*both_ways(lambda: counts_gad.search(network, source, limit, counts_gad.Settings(block, acceptance)),
                           verifier))
    wanted = lattice_gad.Settings(candidates=4, window=1, block=block, acceptance=acceptance)
    assert_same(*both_ways(lambda: lattice_gad.search(network, source, limit, wanted), verifier))


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 12), st.booleans(), st.sampled_from(jacobi.STARTS),
       st.sampled_from([0.0, 1.0, 3.0]), st.sampled_from([47, 7]))
def test_last_iterates(tiny: Tiny, length: int, seed: int, block: int, hybrid: bool, start: str, ratio: float,
                       longest: int) -> None:
    network, source = tiny(seed=seed), sources(length)
    limit = LengthLimit(ratio=2.0, extra=longest, longest=longest)
    wanted = jacobi.Settings(block, hybrid, start, ratio)
    assert_same(*both_ways(lambda: jacobi.search(network, source, limit, wanted), network))


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(0, 9), st.sampled_from(NORMS), st.sampled_from(ACTIVATIONS), st.integers(1, 6),
       st.integers(1, 5), st.sampled_from([23, 4]))
def test_mask_predict(length: int, seed: int, norm: str, activation: str, iterations: int, candidates: int,
                      longest: int) -> None:
    """Candidates of different lengths, which have nothing left to hide at different times."""
    network, source = masked(seed=seed, norm=norm, activation=activation), sources(length)
    limit, wanted = LengthLimit(1.5, 4, longest), mask_predict.Settings(iterations, candidates, nbest=candidates)
    assert_same(*both_ways(lambda: mask_predict.search(network, source, limit, wanted), network))


def test_they_are_whole(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the tests above would compare a search with itself."""
    def fail(*_: Any) -> Tensor:
        raise AssertionError("came back to Python")

    verifier = tiny(seed=1)
    network, heads = drafter(verifier), with_heads(verifier)
    monkeypatch.setattr(Transformer, "step", fail)
    monkeypatch.setattr(Transformer, "advance", fail)
    source, limit = sources(5), LengthLimit(ratio=2.0, extra=4, longest=47)
    found = [greedy.search(verifier, source, limit), verify.search(verifier, source, limit),
             jacobi.search(verifier, source, limit), speculative.search(network, source, limit),
             gad.search(network, source, limit), blockwise.search(heads, source, limit),
             iad.search(verifier, source, limit), beam.search(verifier, source, limit, beam.Settings(1))]
    assert all(torch.equal(one.tokens, found[0].tokens) for one in found)
    with pytest.raises(AssertionError, match="came back"):
        gad.search(drafter(verifier, prefix="bidirectional"), source, limit)


def test_a_wide_draft_is_not_compiled(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows are quicker with the library's products on all cores."""
    monkeypatch.setattr(bounds, "of", lambda width: bounds.Bounds(tokens=64, pieces=64, row=64))
    network, source = tiny(seed=1), sources(5)
    assert network.reading(network.start(network.encode(source)), 600, 64) is not None
    assert network.reading(network.start(network.encode(source)), 600, 65) is None


def test_more_tokens_than_places_are_refused(tiny: Tiny) -> None:
    network, source = tiny(seed=4), sources(3)
    network.projection.weight.data[network.order.end] = -100  # never ends
    network.clear_caches()
    with pytest.raises(IndexError, match="places"):
        greedy.search(network, source, LengthLimit(ratio=0, extra=500, longest=500))


def test_source_words_that_are_no_target_words(tiny: Tiny) -> None:
    network = tiny(seed=4, vocabulary=40, target_vocabulary=20)
    source = torch.tensor([[39, 38, 37, 36, 35, 34, 3]])
    with pytest.raises(PipelineError, match="same vocabulary"):
        jacobi.search(network, source, LengthLimit(ratio=2.0, extra=4, longest=47), jacobi.Settings(start="source"))


@pytest.mark.parametrize("order", ["left_to_right", "interleaved"])
def test_scores_that_are_read_under_another_engine(tiny: Tiny, order: str) -> None:
    model, limit = tiny(order), LengthLimit(ratio=2.0, extra=4, longest=47)
    searches: list[Any] = [greedy.search] if order == "interleaved" else [greedy.search, verify.search]
    for search in searches:
        found, other = search(model, sources(6), limit), search(model, sources(6), limit)
        with use_engine("torch"):
            later = found.scores
        torch.testing.assert_close(later, other.scores, rtol=0, atol=1e-9)


def test_hypotheses_that_are_kept_keep_no_state(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand lines whose scores nobody has asked for yet, keys and values would fill the memory."""
    verifier, pairs = tiny(seed=1), tiny("interleaved", seed=1)
    network, heads, limit = drafter(verifier), with_heads(verifier), LengthLimit(ratio=2.0, extra=4, longest=47)
    states: list[weakref.ref[Any]] = []
    read = Compiled.reading

    def reading(*arguments: Any, **options: Any) -> Any:
        found = read(*arguments, **options)
        states.extend(map(weakref.ref, (found.past, found.source)))
        return found

    monkeypatch.setattr(Compiled, "reading", reading)
    searches: list[Search] = [
        lambda: greedy.search(verifier, sources(5), limit), lambda: greedy.search(pairs, sources(5), limit),
        lambda: beam.search(verifier, sources(5), limit, beam.Settings(3)),
        lambda: verify.search(verifier, sources(5), limit), lambda: iad.search(verifier, sources(5), limit),
        lambda: jacobi.search(verifier, sources(5), limit), lambda: gad.search(network, sources(5), limit),
        lambda: speculative.search(network, sources(5), limit), lambda: blockwise.search(heads, sources(5), limit),
        lambda: search_in_threads(lambda source: iad.search(verifier, source, limit), sources(5, 3, 4))]
    for search in searches:
        states.clear()
        kept = search()
        assert states and not [state for state in states if state() is not None]
        kept.scores  # noqa: B018  # which is computed now
        rounds = kept.verification.rounds if kept.verification is not None else []
        assert states and not [state for state in states if state() is not None]
        assert len(rounds) == (0 if kept.verification is None else int(kept.calls.max()))
