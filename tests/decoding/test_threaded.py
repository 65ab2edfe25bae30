"""A batch whose sentences are searched in threads, one or a few at a time: the same as a search of all together."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from time import sleep
from typing import Any
from unittest.mock import patch

import pytest
import torch
from drafters import drafter, unrounded, with_heads
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from orders import EVERY_ORDER
from sentences import sources
from torch import Tensor

from pipeline.decoding import beam, blockwise, gad, greedy, iad, jacobi, speculative, verify
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.decoding.threaded import join, search_in_portions, search_in_threads
from pipeline.decoding.verify import Round
from pipeline.engine import bounds, door
from pipeline.engine.choice import Engine
from pipeline.engine.door import open_engine, portions_of, sentences_per_call, use_engine
from pipeline.errors import PipelineError
from pipeline.model.formats import in_format
from pipeline.model.transformer import Transformer
from pipeline.trace import mark_rounds, output_of
from pipeline.vocabulary import EOS, PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=2.0, extra=3, longest=40)


def threads(count: int) -> AbstractContextManager[Any]:
    """As if PyTorch had so many."""
    return patch.object(torch, "get_num_threads", return_value=count)


def searches(tiny: Tiny, seed: int) -> dict[str, Callable[[Tensor], Hypotheses]]:
    verifier, pairs = tiny(seed=seed), tiny("interleaved", seed=seed)
    network, heads = drafter(verifier, seed=seed, decoder_layers=2), with_heads(verifier, seed=seed)
    return {
        "greedy": lambda source: greedy.search(verifier, source, LIMIT),
        "two words": lambda source: greedy.search(pairs, source, LIMIT),
        "beam": lambda source: beam.search(verifier, source, LIMIT, beam.Settings(4, nbest=3)),
        "nothing": lambda source: verify.search(verifier, source, LIMIT),
        "iad": lambda source: iad.search(verifier, source, LIMIT),
        "jacobi": lambda source: jacobi.search(verifier, source, LIMIT, jacobi.Settings(3)),
        "gad": lambda source: gad.search(network, source, LIMIT, gad.Settings(3)),
        "speculative": lambda source: speculative.search(network, source, LIMIT, speculative.Settings(2)),
        "blockwise": lambda source: blockwise.search(heads, source, LIMIT),
    }


def found_in(source: Tensor, calls: int) -> Hypotheses:
    """A sentence (1, S), translated by itself."""
    words = source[:, None, :-1]
    return Hypotheses(words, torch.tensor([[words.shape[2]]]), torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool),
                      torch.tensor([calls]))


def assert_same(found: Hypotheses, expected: Hypotheses) -> None:
    """Also of hypotheses that are padded further."""
    assert torch.equal(found.lengths, expected.lengths)
    assert torch.equal(found.ended, expected.ended) and torch.equal(found.calls, expected.calls)
    for mine, theirs in ((found, expected), (expected, found)):
        rows = zip(mine.tokens.flatten(0, 1), theirs.tokens.flatten(0, 1), mine.lengths.flatten(), strict=True)
        assert all(torch.equal(one[:length], other[:length]) and (one[length:] == PAD).all()
                   for one, other, length in rows)
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-9)


def assert_same_rounds(found: list[Round], expected: list[Round], sentences: int) -> None:
    """The sentences of every round, and of every sentence the output and the fate of each token."""
    assert [one.sentences.tolist() for one in found] == [one.sentences.tolist() for one in expected]
    for row in range(sentences):
        ours, theirs = (output_of(rounds, row) for rounds in (found, expected))
        assert ours == theirs
        nothing = [False] * len(ours)
        assert mark_rounds(found, row, nothing) == mark_rounds(expected, row, nothing)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(0, 20), st.sampled_from([1, 2, 5]))
def test_apart_as_together(tiny: Tiny, lengths: list[int], seed: int, count: int) -> None:
    batch = sources(*lengths)
    with unrounded(), threads(count):
        found = greedy.search(tiny(seed=seed), batch, LIMIT)
        assume(bool(((found.tokens != PAD).sum(2) == found.lengths).all()))  # or no draft agrees with who says PAD
        for search in searches(tiny, seed).values():
            together = search(batch)
            for found in search_in_threads(search, batch), search_in_portions(search, batch, min(count, len(batch))):
                assert_same(found, together)
                if together.verification is None:
                    assert found.verification is None
                    continue
                assert found.verification is not None and found.verification.exact
                assert torch.equal(found.verification.drafter_calls, together.verification.drafter_calls)
                assert_same_rounds(found.verification.rounds, together.verification.rounds, len(batch))


def test_the_longest_first_and_every_sentence_once() -> None:
    batch = torch.tensor([[5, EOS, PAD, PAD], [5, 6, 7, EOS], [8, 9, EOS, PAD]])
    seen = []

    def search(source: Tensor) -> Hypotheses:
        seen.append(source.tolist())
        return found_in(source, len(seen))

    with threads(1):
        found = search_in_threads(search, batch)
    assert seen == [[[5, 6, 7, EOS]], [[8, 9, EOS]], [[5, EOS]]]
    assert found.tokens.tolist() == [[[5, PAD, PAD]], [[5, 6, 7]], [[8, 9, PAD]]]
    assert found.lengths.tolist() == [[1], [3], [2]] and found.calls.tolist() == [3, 1, 2]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_as_many_at_once_as_there_are_threads(count: int) -> None:
    together = threading.Barrier(count, timeout=20)  # passes when so many are searching
    searching, most, lock = 0, 0, threading.Lock()

    def search(source: Tensor) -> Hypotheses:
        nonlocal searching, most
        with lock:
            searching += 1
            most = max(most, searching)
        together.wait()
        sleep(0.01)  # in which others would begin
        with lock:
            searching -= 1
        return found_in(source, 1)

    with threads(count):
        assert len(search_in_threads(search, torch.full((8, 3), 9)).tokens) == 8
    assert most == count


@pytest.mark.parametrize("error", [PipelineError("no such word"), IndexError("no such place"), KeyboardInterrupt()])
@pytest.mark.parametrize("count", [1, 2])
def test_an_error_ends_it(error: BaseException, count: int) -> None:
    begun = []

    def search(source: Tensor) -> Hypotheses:
        begun.append(source)
        raise error

    with threads(count), pytest.raises(type(error)):
        search_in_threads(search, torch.full((9, 3), 9))
    assert len(begun) <= count


def test_what_no_sentence_has_is_not_joined(tiny: Tiny) -> None:
    search = searches(tiny, 3)["greedy"]
    one = search(sources(4)[:1])
    assert join([one], [[0]]).verification is None


def test_how_many_sentences_a_call_has(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    network, source = tiny(seed=1), sources(5)
    network.forward = None  # type: ignore[assignment]  # a search has other verbs
    batch, opened = source[:1].expand(40, -1), open_engine(network)
    per_call = partial(sentences_per_call, shares_calls=False, reads_at_once=False)
    assert per_call(opened, batch) == per_call(open_engine(drafter(network)), batch) == 1
    for count, expected in ((1, {2: 1, 5: 3, 40: 16}), (2, {2: 1, 5: 2, 40: 10})):
        with threads(count):
            assert {rows: per_call(opened, batch[:rows], shares_calls=True) for rows in expected} == expected
    for alone in ((opened, batch[:1]), (object(), batch), (open_engine(tiny(dtype=torch.bfloat16)), batch)):
        assert per_call(*alone) == per_call(*alone, shares_calls=True, reads_at_once=True) == 0
    monkeypatch.setattr(door, "_LIGHT", 1000)
    assert per_call(opened, batch) == per_call(opened, batch, shares_calls=True) == 0
    assert per_call(opened, batch, reads_at_once=True) == 1


@pytest.mark.parametrize("engine", ["compiled", "torch"])
@pytest.mark.parametrize(("block", "at_once"), [
    ({"algorithm": "greedy"}, 2), ({"algorithm": "beam", "beams": 2}, 1), ({"algorithm": "pair_beam", "beams": 2}, 1)])
def test_decoders_that_search_in_compiled_calls(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, block: dict[str, Any],
                                                at_once: int, engine: Engine) -> None:
    encoded: list[int] = []
    network, encode = tiny("double_token", seed=1), Transformer.encode

    def noted(self: Transformer, source: Tensor) -> Any:
        encoded.append(len(source))
        return encode(self, source)

    monkeypatch.setattr(Transformer, "encode", noted)
    with use_engine(engine), threads(1):
        make_decoder("any", block, LIMIT)(network, sources(5)[:1].expand(4, -1))
    assert set(encoded) == {at_once if engine == "compiled" else 4}


@settings(max_examples=20)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(0, 20), st.sampled_from(sorted(EVERY_ORDER)))
def test_sentences_leave_a_call_one_by_one(tiny: Tiny, lengths: list[int], seed: int, order: str) -> None:
    """Each takes as many steps, of the same tokens, as by torch; some end, and some reach their own limit."""
    network, batch = tiny(order, seed=seed), sources(*lengths)
    found = greedy.search(network, batch, LIMIT)
    with use_engine("torch"):
        expected = greedy.search(network, batch, LIMIT)
        assert_same(found, expected)  # with scores by torch, too
    assert_same(greedy.search(network, batch, LIMIT), expected)


def test_portions_have_as_long_sentences_each() -> None:
    batch, seen = sources(2, 9, 4, 7, 5), dict[int, list[int]]()

    def search(portion: Tensor) -> Hypotheses:
        seen[portion.shape[1]] = (portion != PAD).sum(1).tolist()
        return found_in_rows(portion)

    lengths = (batch != PAD).sum(1)
    with threads(2):
        found = search_in_portions(search, batch, 2)
    longest = sorted(lengths.tolist(), reverse=True)
    assert seen == {longest[0]: longest[::2], longest[1]: longest[1::2]}  # none is padded further than its portion
    assert found.calls.tolist() == lengths.tolist()  # in the order of the batch


def found_in_rows(source: Tensor) -> Hypotheses:
    """Sentences (b, S), whose calls are their numbers of pieces."""
    calls = (source != PAD).sum(1)
    return Hypotheses(source.unsqueeze(1), calls.unsqueeze(1), torch.zeros(len(source), 1),
                      torch.ones(len(source), 1, dtype=torch.bool), calls)


def test_how_many_portions_a_batch_has(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = open_engine(tiny(seed=1))
    rounded = open_engine(in_format(tiny(seed=1), "int8"))
    source = sources(5)[:1]

    def portions(model: Any, sentences: int) -> int:
        return portions_of(model, source.expand(sentences, -1))

    with threads(2):
        assert [portions(rounded, one) for one in (1, 31, 32, 1000)] == [1, 1, 2, 2]
        assert portions(exact, 1000) == 1  # torch has two threads for large batches of narrow models
        monkeypatch.setattr(bounds, "SHARED", 4)
        assert [portions(exact, one) for one in (31, 32)] == [1, 2]
        assert portions(exact, 2 * 4096 // source.shape[1] + 2) == 1  # which torch encodes
        with use_engine("torch"):
            assert portions(exact, 32) == 1
    with threads(8):
        assert [portions(rounded, one) for one in (47, 64, 1000)] == [2, 4, 8]
        assert portions(exact, 1000) == 1  # torch has more threads than a team


@pytest.mark.parametrize("block", [
    {"algorithm": "greedy"}, {"algorithm": "beam", "beams": 2}, {"algorithm": "jacobi", "block": 3}])
def test_decoders_search_portions(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, block: dict[str, Any]) -> None:
    network, encode, encoded = tiny(seed=1), Transformer.encode, list[int]()

    def noted(self: Transformer, source: Tensor) -> Any:
        encoded.append(len(source))
        return encode(self, source)

    decode, batch = make_decoder("any", {**block, "quantization": "int8"}, LIMIT), sources(5, 7, 3)
    monkeypatch.setattr(door, "_LIGHT", 0)
    whole = decode(network, batch)
    monkeypatch.setattr(bounds, "PORTION", 1)
    monkeypatch.setattr(Transformer, "encode", noted)
    with threads(2):
        found = decode(network, batch)
        assert sorted(encoded) == [1, 2]
        assert_same(found, whole)
