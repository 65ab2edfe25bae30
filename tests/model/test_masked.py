"""The masked Transformer: both readings agree, words see all of their own sentence and nothing else, lengths."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from masked import half_hidden, masked
from sentences import sources

from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.settings import NORMS, POSITIONS, TIES, VocabularySettings
from pipeline.model.start import begin_with
from pipeline.model.state import Memory
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import MASK, PAD

pytestmark = pytest.mark.usefixtures("engine")

EXACT = {"rtol": 0, "atol": 1e-10}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("positions", POSITIONS)
def test_iterations_equal_the_forward_pass(norm: str, ties: str, positions: str) -> None:
    network = masked(norm=norm, tied_embeddings=ties, positions=positions)
    for lengths, beams, capacity in (((5, 9, 2), 1, 1), ((4, 7), 3, 16), (range(1, 21), 1, 12)):
        source = sources(*lengths)
        rows = source.repeat_interleave(beams, 0)
        targets = [row * 5 % 9 for row in range(len(rows))]
        with torch.inference_mode():
            state = network.start(network.encode(source), beams=beams, capacity=capacity)
            for shift in range(3):  # nothing of an iteration shows in the next one
                tokens = half_hidden(*targets[shift:], *targets[:shift])
                state.rewind(0)
                torch.testing.assert_close(network.step(tokens, state), network(rows, tokens), **EXACT)


@pytest.mark.parametrize("norm", NORMS)
def test_the_encoder_is_the_same_in_training_and_search(norm: str) -> None:
    network, source = masked(norm=norm), sources(3, 1, 8)
    trained, searched = network.encoded(source), network.encode(source)
    torch.testing.assert_close(searched.states, trained.states, **EXACT)
    torch.testing.assert_close(network.lengths(searched), network.lengths(trained), **EXACT)


@pytest.mark.parametrize("norm", NORMS)
def test_a_padded_batch_equals_each_row_alone(norm: str) -> None:
    network = masked(norm=norm)
    source, lengths = sources(3, 11, 1, 6, 1), (4, 9, 0, 1, 2)
    tokens = half_hidden(*lengths)
    together, together_lengths = network(source, tokens), network.lengths(network.encoded(source))
    assert together.isfinite().all()
    for row, (ids, length) in enumerate(zip(source, lengths, strict=True)):
        alone = ids[ids != PAD].unsqueeze(0)
        torch.testing.assert_close(network.lengths(network.encoded(alone)), together_lengths[row:row + 1], **EXACT)
        torch.testing.assert_close(network(alone, tokens[row:row + 1, :length]), together[row:row + 1, :length],
                                   **EXACT)


def test_a_word_sees_every_word_of_its_sentence_and_of_no_other() -> None:
    network, lengths = masked(), (3, 6)
    source, tokens = sources(4, 7), half_hidden(*lengths)
    before = network(source, tokens)
    for row, length in enumerate(lengths):
        for place in range(length):
            other = tokens.clone()
            other[row, place] = MASK if tokens[row, place] != MASK else 9
            difference = (network(source, other) - before).abs().amax(2)
            assert (difference[row, :length] > 0).all()
            assert (difference[1 - row] == 0).all()


def test_the_decoder_does_not_see_the_length_token() -> None:
    network, source, tokens = masked(), sources(4, 7), half_hidden(3, 6)
    memory = network.encoded(source)
    states = memory.states.clone()
    states[:, 0] += 100
    changed = Memory(states, memory.mask)
    assert torch.equal(network.decoded(tokens, changed), network.decoded(tokens, memory))
    assert not torch.allclose(network.lengths(changed), network.lengths(memory))


def test_lengths_are_a_distribution_over_all_that_fit() -> None:
    network = masked(max_length=13)
    lengths = network.lengths(network.encode(sources(4, 7, 1)))
    assert lengths.shape == (3, 13)
    torch.testing.assert_close(lengths.exp().sum(1), torch.ones(3, dtype=torch.float64), **EXACT)
    assert not torch.allclose(lengths[0], lengths[1])


@pytest.mark.parametrize("excess", [-2, 0, 3])
def test_a_length_is_predicted_from_that_of_the_source(excess: int) -> None:
    """Whatever the source's length is, and however its row is padded."""
    network, lengths = masked(), (4, 9, 7)
    with torch.no_grad():
        network.excess.weight.zero_()
        network.excess.bias.zero_()[12 + excess] = 9
    for source in (sources(*lengths), *(sources(length) for length in lengths)):
        predicted = network.lengths(network.encode(source)).argmax(1)
        assert torch.equal(predicted, (source != PAD).sum(1) + excess)


def test_lengths_far_from_that_of_the_source_share_a_class() -> None:
    network = masked()
    with torch.no_grad():
        network.excess.weight.zero_()
        network.excess.bias.copy_(torch.arange(24))
    long, short = network.lengths(network.encode(sources(20, 2)))
    assert torch.equal(long[:9], long[:1].expand(9)) and (long[9:].diff() > 0).all()  # by 11 and more shorter
    assert torch.equal(short[13:], short[13:14].expand(11)) and (short[:14].diff() > 0).all()


def test_the_longest_source_and_the_longest_target_fit() -> None:
    network = masked(max_length=11)
    assert network(sources(11), half_hidden(10)).shape == (1, 10, 20)
    with torch.inference_mode():
        state = network.start(network.encode(sources(11)), capacity=2)
        assert network.step(half_hidden(10), state).shape == (1, 10, 20)


@pytest.mark.parametrize("positions", POSITIONS)
def test_all_of_an_ordered_model_but_the_length_is_a_warm_start(tiny: Callable[..., Transformer], tmp_path: Path,
                                                                positions: str) -> None:
    teacher = tiny("left_to_right", max_length=24, positions=positions)
    network = masked(max_length=24, positions=positions)
    vocabulary = VocabularySettings(*teacher.vocabularies, "c0ffee")
    save_checkpoint(tmp_path / "teacher", teacher, vocabulary, unique_weights(teacher), {})
    fresh = begin_with(network, tmp_path / "teacher")
    assert fresh == ["excess.bias", "excess.weight"]
    assert torch.equal(network.source_positions()[1:], teacher.source_positions())
    assert torch.equal(network.source_positions()[0], torch.zeros(16, dtype=torch.float64))
    assert torch.equal(network.target_positions()[:24], teacher.target_positions()[:24])
