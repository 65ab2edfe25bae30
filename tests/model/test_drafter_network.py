"""Drafters: what is trained is what is proposed, however the state has moved, in any batch, beside any verifier."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from drafters import drafter
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import sources
from torch import Tensor

from pipeline.engine.choice import Engine
from pipeline.errors import PipelineError
from pipeline.model.checkpoint import unique_weights
from pipeline.model.drafter import DrafterTransformer, make_drafter
from pipeline.model.formats import in_format
from pipeline.model.settings import NetworkSettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, MASK, PAD

Tiny = Callable[..., Transformer]
EXACT = {"rtol": 0, "atol": 1e-10}
WORDS, BLOCK = 9, 4
PREFIXES = pytest.mark.parametrize("prefix", ["causal", "bidirectional"])


def targets(rows: int, words: int = WORDS) -> Tensor:
    return torch.randint(7, 20, (rows, words), generator=torch.Generator().manual_seed(rows + words))


def started(target: Tensor) -> Tensor:
    return torch.nn.functional.pad(target, (1, 0), value=BOS)


def trained(network: DrafterTransformer, source: Tensor, target: Tensor, words: Tensor) -> Tensor:
    """(R, k, D): by the forward pass of training, the states of the next k tokens after each row's number of words."""
    if network.prefix == "bidirectional":
        return network.hidden_after(source, target, words)
    states = network.hidden_after(source, target, torch.arange(target.shape[1] + 1))
    first, blocks = states.split([target.shape[1] + 1, states.shape[1] - target.shape[1] - 1], 1)
    blocks = blocks.unflatten(1, (target.shape[1] + 1, network.block - 1))
    rows = torch.arange(len(target))
    return torch.cat([first[rows, words].unsqueeze(1), blocks[rows, words]], 1)


# Proposed is what was trained.

@PREFIXES
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(("encoder_layers", "decoder_layers", "block"), [(0, 1, 4), (0, 2, 1), (1, 2, 7), (2, 1, 2)])
def test_after_all_prefixes(tiny: Tiny, prefix: str, norm: str, positions: str, encoder_layers: int,
                             decoder_layers: int, block: int) -> None:
    """From a fresh state, with rows that are level and with rows that are not."""
    network = drafter(tiny(norm=norm), prefix=prefix, norm=norm, positions=positions, block=block,
                      encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    source, target = sources(3, 11, 1, 6), targets(4)
    memory = network.draft_memory(source, network.verifier.encode(source))
    ragged = torch.tensor([5, 0, 9, 2])
    for words in range(WORDS + 1):
        level = network.propose(started(target), words + 1, block, network.start(memory))
        torch.testing.assert_close(level, trained(network, source, target, torch.full((4,), words)), **EXACT)
        places = ragged.roll(words)
        uneven = network.propose(started(target), places.numpy() + 1, block, network.start(memory, capacity=1))
        torch.testing.assert_close(uneven, trained(network, source, target, places), **EXACT)


MOVES = st.lists(st.tuples(st.lists(st.integers(1, 5), min_size=3, max_size=3), st.integers(0, 4),
                           st.sampled_from(["keep", "level", "rewind", "drop"])), min_size=1, max_size=6)


@PREFIXES
@given(moves=MOVES)
@settings(max_examples=20)
def test_however_the_state_has_moved(tiny: Tiny, prefix: str, moves: list[tuple[list[int], int, str]]) -> None:
    """Rows that advance each at its own pace, are level again, are taken back, and leave."""
    network = drafter(tiny(), prefix=prefix, decoder_layers=2, block=BLOCK)
    source, target = sources(3, 8, 5), targets(3, 16)
    state = network.start(network.draft_memory(source, network.verifier.encode(source)), capacity=2)
    alive, words = torch.arange(3), torch.full((3,), -1)
    for steps, back, move in moves:
        if move == "rewind" and int(words.min()) >= 0:
            words = (words - back).clamp(min=-1)
            state.rewind(words.numpy() + 1)
        if move == "drop" and len(alive) > 1:
            kept = torch.arange(len(alive) - 1).flip(0)
            alive, words = alive[kept], words[kept]
            state.select(kept)
        words = words + torch.tensor(steps)[:len(alive)]
        if move == "level":
            words = words.max().expand(len(alive))
        words = words.clamp(max=16)
        if bool((words == words[0]).all()) and move != "keep":
            found = network.propose(started(target[alive]), int(words[0]) + 1, BLOCK, state)
        else:
            found = network.propose(started(target[alive]), words.numpy() + 1, BLOCK, state)
        torch.testing.assert_close(found, trained(network, source[alive], target[alive], words), **EXACT)
        words = words.clamp(max=15)  # so that there is something new next time
        state.rewind((words + 1 - (words == 15).long()).numpy())


@PREFIXES
def test_up_to_the_last_position(tiny: Tiny, prefix: str) -> None:
    """What has no position is not proposed; what has one is proposed, however unevenly the rows have come there."""
    network = drafter(tiny(max_length=12), prefix=prefix, max_length=12, decoder_layers=2, block=BLOCK)
    source, target = sources(3, 8), targets(2, 12)
    memory = network.draft_memory(source, network.verifier.encode(source))
    for last in range(7, 12):
        state = network.start(memory)
        network.propose(started(target), np.array([2, last]), BLOCK, state)
        found = network.propose(started(target), np.array([last, last + 1]), BLOCK, state)
        assert found.shape[1] == min(BLOCK, 12 - last)
        fresh = network.propose(started(target), np.array([last, last + 1]), BLOCK, network.start(memory))
        torch.testing.assert_close(found, fresh, **EXACT)
        if prefix == "causal":
            whole = trained(network, source, target[:, :11], torch.tensor([last - 1, last]))
            torch.testing.assert_close(found, whole[:, :found.shape[1]], **EXACT)


@PREFIXES
def test_training_at_the_last_position(tiny: Tiny, prefix: str) -> None:
    """Blocks that reach beyond it: the states before it are as ever."""
    network = drafter(tiny(max_length=12), prefix=prefix, max_length=12, block=6)
    source, target = sources(3, 8), targets(2, 11)
    whole = trained(network, source, target, torch.tensor([11, 8]))
    assert whole.shape == (2, 6, 16) and whole.isfinite().all()
    if prefix == "causal":
        network.block = 2
        torch.testing.assert_close(whole[:, :2], trained(network, source, target, torch.tensor([11, 8])), **EXACT)


# What sees what.

def test_a_block_sees_its_prefix_and_itself(tiny: Tiny) -> None:
    network = drafter(tiny(), decoder_layers=2, block=BLOCK)
    source, target = sources(6, 4), targets(2)
    places, k = torch.tensor([0, 2, 3, 7, 9]), BLOCK - 1
    before = network.hidden_after(source, target, places)
    blocks = before[:, WORDS + 1:].unflatten(1, (len(places), k))
    for index, place in enumerate(places):  # no block sees another
        alone = network.hidden_after(source, target, place.unsqueeze(0))
        torch.testing.assert_close(alone[:, :WORDS + 1], before[:, :WORDS + 1], **EXACT)
        torch.testing.assert_close(alone[:, WORDS + 1:], blocks[:, index], **EXACT)
    for word in range(WORDS):  # a word is seen after it
        other = target.clone()
        other[:, word] = 7 + (target[:, word] - 6) % 13
        moved = (network.hidden_after(source, other, places) - before).abs().amax((0, 2)) > 0
        assert moved[:WORDS + 1].tolist() == [place > word for place in range(WORDS + 1)]
        assert moved[WORDS + 1:].view(-1, k).all(1).tolist() == (places > word).tolist()
        assert moved[WORDS + 1:].view(-1, k).any(1).tolist() == (places > word).tolist()


def test_a_token_that_is_shown_is_the_one_before_what_is_predicted(tiny: Tiny) -> None:
    """The mask after p words replaces word p, and a state predicts what follows: by plain decoder steps."""
    network = drafter(tiny(), decoder_layers=2, block=BLOCK)
    source, target = sources(6), targets(1)
    for place in range(WORDS - BLOCK):
        for shown in ([0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]):
            revealed = torch.tensor(shown).bool()
            states = network.hidden_after(source, target, torch.tensor([place]), revealed.view(1, 1, -1))
            block = target[0, place:place + BLOCK - 1].where(revealed, torch.tensor(MASK))
            inputs = torch.cat([started(target)[0, :place + 1], block]).unsqueeze(0)
            state = network.start(network.verifier.encode(source))
            torch.testing.assert_close(states[:, WORDS + 1:], network.advance(inputs, state)[:, place + 1:], **EXACT)


def test_both_directions(tiny: Tiny) -> None:
    """Words after the prefix are unknown, words that are shown are seen by all masks, padding by none."""
    network = drafter(tiny(), prefix="bidirectional", decoder_layers=2, block=BLOCK)
    source, target = sources(6, 4, 9), targets(3)
    places = torch.tensor([2, 5, 9])
    before = network.hidden_after(source, target, places)
    other = target.masked_fill(torch.arange(WORDS) >= places.unsqueeze(1), PAD)
    assert torch.equal(network.hidden_after(source, other, places), before)
    revealed = torch.tensor([[0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]).bool()
    shown = network.hidden_after(source, target, places, revealed)
    assert torch.equal((shown != before).any(2).all(1), revealed.any(1))
    for row in range(3):
        alone = network.hidden_after(source[row:row + 1, :int((source[row] != PAD).sum())], target[row:row + 1],
                                      places[row:row + 1], revealed[row:row + 1])
        torch.testing.assert_close(alone[0], shown[row], **EXACT)


# Predicted tokens.

@PREFIXES
@torch.no_grad()
def test_a_chained_token_hears_the_one_before_it(tiny: Tiny, prefix: str) -> None:
    """By the formula; an unchained drafter's tokens hear nothing."""
    source, target = sources(6, 4, 9), targets(3)
    for chained in (True, False):
        network = drafter(tiny(), prefix=prefix, chained=chained, block=BLOCK)
        state = network.start(network.draft_memory(source, network.verifier.encode(source)))
        states = network.propose(started(target), 4, BLOCK, state)
        last, expected = target[:, 2], []
        for hidden in states.unbind(1):
            if (chain := network.chain) is not None:
                heard = chain.of_state(hidden) + chain.of_previous(network.target_embedding.weight[last] * 4)
                hidden = hidden + chain.outer(heard.relu())  # 4: the root of D
            logits = hidden @ network.projection.weight.T
            torch.testing.assert_close(network.draft_logits(states[:, len(expected)], last), logits, **EXACT)
            last = logits.argmax(1)
            expected.append(last)
        found = network.draft_tokens(states, target[:, 2])
        assert torch.equal(found, torch.stack(expected, 1))
        both = [network.draft_logits(states[:, 0], before) for before in (target[:, 2], target[:, 3])]
        assert torch.equal(*both) != chained


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("rows", [4, 9])
@torch.no_grad()
def test_a_quantised_drafter_chooses_by_the_logits_that_score(tiny: Tiny, chained: bool, rows: int,
                                                              engine: Engine) -> None:
    """Also a chained one, whose tokens the engine chooses up to 4 rows."""
    network = in_format(drafter(tiny(), chained=chained), "int8")
    states, last = torch.randn(rows, 150, 16, dtype=torch.float64), torch.arange(7, 7 + rows)
    found = network.draft_tokens(states, last)
    before = torch.cat((last.unsqueeze(1), found[:, :-1]), 1)
    assert torch.equal(network.draft_logits(states.flatten(0, 1), before.flatten()).argmax(1), found.flatten())


# The batch.

@PREFIXES
@pytest.mark.parametrize("encoder_layers", [0, 1])
def test_a_row_does_not_depend_on_the_others(tiny: Tiny, prefix: str, encoder_layers: int) -> None:
    network = drafter(tiny(), prefix=prefix, encoder_layers=encoder_layers, decoder_layers=2, block=BLOCK)
    source, target = sources(3, 11, 1, 6), targets(4, 14)
    paths = torch.tensor([[1, 2, 9, 10], [1, 6, 7, 12], [1, 4, 5, 6], [1, 2, 3, 12]])  # of lengths, a row each

    def drafts(rows: Tensor) -> list[Tensor]:
        width = int((source[rows] != PAD).sum(1).max())
        memory = network.draft_memory(source[rows, :width], network.verifier.encode(source[rows, :width]))
        state = network.start(memory, capacity=1)
        return [network.propose(started(target[rows]), lengths.numpy(), BLOCK, state) for lengths in paths[rows].T]

    together = drafts(torch.arange(4))
    for row in range(4):
        for batch in ([row], [row, (row + 1) % 4], [(row + 2) % 4, row]):
            for found, expected in zip(drafts(torch.tensor(batch)), together, strict=True):
                torch.testing.assert_close(found[batch.index(row)], expected[row], **EXACT)


# The verifier.

@pytest.mark.parametrize(("verifier", "changes", "message"), [
    ({"vocabulary": 21}, {}, "it has 21 source and 21 target pieces, the drafter 21 and 20"),
    ({"vocabulary": 21}, {"encoder_layers": 1}, "it has 21 source and 21 target pieces, the drafter 20 and 20"),
    ({"target_vocabulary": 31}, {}, "it has 20 source and 31 target pieces, the drafter 20 and 20"),
    ({"width": 32}, {}, "network.width: 16, but the verifier's encoder, which is to be shared, has 32"),
    ({"order": "interleaved"}, {}, "order interleaved cannot verify drafts; choose an ordered family of one word"),
    ({"order": "double_token"}, {"encoder_layers": 1}, "order double_token cannot verify drafts"),
    ({}, {"max_length": 9}, "network.max_length: 9, but the verifier reads up to 48; a drafter must read as far"),
])
@PREFIXES
def test_verifiers_that_do_not_fit(tiny: Tiny, prefix: str, verifier: dict[str, object], changes: dict[str, int],
                                   message: str) -> None:
    shape = NetworkSettings(**{"width": 16, "heads": 2, "feed_forward": 32, "encoder_layers": 0, "decoder_layers": 1,
                               "max_length": 48, "tied_embeddings": "none", **changes})
    with pytest.raises(PipelineError, match=message) as caught:
        make_drafter(shape, 20, 20, BLOCK, prefix, False).attach_verifier(tiny(**verifier))
    assert "\n" not in str(caught.value)


def test_an_encoder_of_its_own_may_have_another_width(tiny: Tiny) -> None:
    network = drafter(tiny(width=32), encoder_layers=1)
    source = sources(4, 7)
    memory = network.draft_memory(source, network.verifier.encode(source))
    assert memory.states.shape == (2, 7, 16)
    assert network.propose(started(targets(2)), 3, BLOCK, network.start(memory)).shape == (2, BLOCK, 16)


def test_a_verifier_is_never_trained(tiny: Tiny) -> None:
    network = drafter(tiny(dropout=0.5), dropout=0.5).train()
    assert network.training and network.decoder.training
    assert not any(module.training for module in network.verifier.modules())
    assert not any(parameter.requires_grad for parameter in network.verifier.parameters())
    learning = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert learning and not any(name.startswith("verifier.") for name in learning)
    assert learning == {name for name in unique_weights(network) if not name.startswith("verifier.")}
