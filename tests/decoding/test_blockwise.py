"""Blockwise decoding: greedy search's output, in as many calls as its heads deserve."""

from collections.abc import Callable

import pytest
import torch
from drafters import with_heads
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import sources
from torch import Tensor

from pipeline.decoding import blockwise, greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(1.5, 4, 40)


class Foreknowing:
    """Its heads know the greedy translations, by the states that predict their words, but for a share of errors."""

    kind = "heads"

    def __init__(self, verifier: Transformer, source: Tensor, block: int, errors: float) -> None:
        self.verifier, self.block, self._errors = verifier, block, errors
        found = greedy.search(verifier, source, LIMIT)
        arranged = verifier.order.arrange(found.tokens[:, 0], found.lengths[:, 0])
        self._states = verifier.hidden(source, arranged).detach().flatten(0, 1)
        self._ahead = torch.nn.functional.pad(arranged, (0, block), value=0).unfold(1, block + 1, 1).flatten(0, 1)
        self._generator = torch.Generator().manual_seed(1)

    def head_states(self, hidden: Tensor, heads: int) -> Tensor:
        distances = (hidden.unsqueeze(1) - self._states).abs().amax(2)
        words = self._ahead[distances.argmin(1), 1:1 + heads]
        wrong = torch.rand(words.shape, generator=self._generator) < self._errors
        words = torch.where(wrong, (words + 1) % self.verifier.projection.out_features, words)
        assert float(distances.amin(1).max()) < 1e-9  # the state that predicted the last word, and no other
        return torch.nn.functional.one_hot(words, self.verifier.projection.out_features).double()

    def draft_tokens(self, states: Tensor, last: Tensor, verified: bool = False) -> Tensor:
        return states.argmax(2)


def assert_same(found: Hypotheses, expected: Hypotheses) -> None:
    for name in ("tokens", "lengths", "ended"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert torch.allclose(found.scores, expected.scores, atol=1e-9)


@settings(max_examples=12)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9), seed=st.integers(0, 9), block=st.integers(0, 30),
       order=st.sampled_from(["left_to_right", "right_to_left"]), chained=st.booleans())
def test_greedy_searchs_output(tiny: Tiny, lengths: list[int], seed: int, block: int, order: str,
                               chained: bool) -> None:
    verifier, source = tiny(order, seed=seed), sources(*lengths)
    network = with_heads(verifier, block=max(2, block), seed=seed, chained=chained)
    expected = greedy.search(verifier, source, LIMIT)
    found = blockwise.search(network, source, LIMIT, blockwise.Settings(block))
    assert_same(found, expected)
    assert (found.calls <= expected.calls).all()
    assert found.verification is not None and not found.verification.drafter_calls.any()
    for row in range(len(source)):
        alone = blockwise.search(network, source[row:row + 1, :lengths[row]], LIMIT, blockwise.Settings(block))
        assert alone.tokens[0, 0].tolist() == found.tokens[row, 0, :int(found.lengths[row])].tolist()


@settings(max_examples=12)
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=9), block=st.integers(2, 30),
       errors=st.sampled_from([0.0, 0.2, 1.0]))
def test_heads_read_the_state_that_predicted_the_last_word(tiny: Tiny, lengths: list[int], block: int,
                                                           errors: float) -> None:
    verifier, source = tiny(), sources(*lengths)
    expected = greedy.search(verifier, source, LIMIT)
    found = blockwise.search(Foreknowing(verifier, source, block, errors), source, LIMIT)
    assert_same(found, expected)
    slots = expected.calls
    if errors == 0:  # the first call accepts one token, all others a whole block
        assert found.calls.tolist() == [1 + -(-(n - 1) // block) for n in slots.tolist()]
    if errors == 1:
        assert torch.equal(found.calls, slots)


def test_what_cannot_be_searched(tiny: Tiny) -> None:
    network, source = with_heads(tiny(), block=3), sources(4)
    with pytest.raises(PipelineError, match="block: 5 needs 4 heads, but the model has 2; lower it, or train"):
        blockwise.search(network, source, LIMIT, blockwise.Settings(5))
    with pytest.raises(PipelineError, match="block: -1 must be at least 0"):
        blockwise.Settings(-1)
    decode = make_decoder("blockwise", {"algorithm": "blockwise"}, LIMIT)
    with pytest.raises(PipelineError, match="blockwise searches heads models, and this one is ordered"):
        decode(tiny(), source)
