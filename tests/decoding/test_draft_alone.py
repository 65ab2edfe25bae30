"""The drafter without verification: block after block of its own predictions, up to the first end symbol."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import sources
from torch import Tensor

from pipeline.decoding import draft
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.model.drafter import DrafterTransformer, make_drafter
from pipeline.model.settings import NetworkSettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(1.5, 3, 40)
SHAPE = {"width": 16, "heads": 2, "feed_forward": 32, "decoder_layers": 2, "max_length": 48, "dropout": 0.0}


def drafting(verifier: Transformer, prefix: str, seed: int, encoder_layers: int = 0,
             chained: bool = True) -> DrafterTransformer:
    """A random drafter of blocks of 4, sharpened so that some of its translations end."""
    torch.manual_seed(seed)
    settings = NetworkSettings(**SHAPE, encoder_layers=encoder_layers, tied_embeddings="none")
    network = make_drafter(settings, 20, 20, 4, prefix, chained)
    with torch.no_grad():
        network.decoder_norm.weight.mul_(3)
        network.projection.weight[EOS].mul_(3)
    network.attach_verifier(verifier)
    return network.double().eval()


@torch.no_grad()
def by_hand(network: DrafterTransformer, source: Tensor, block: int) -> tuple[list[int], float, bool, int]:
    """One sentence, and at every block everything anew."""
    memory = network.draft_memory(source, network.verifier.encode(source))
    most, words, score, calls = int(LIMIT.words(source)), [BOS], 0.0, 0
    while True:
        prefix = torch.tensor([words])
        states = network.propose(prefix, len(words), min(block, most + 2 - len(words)), network.start(memory))[0]
        calls += 1
        drafted = network.draft_tokens(states.unsqueeze(0), torch.tensor(words[-1:]))[0].tolist()
        for state, word in zip(states, drafted, strict=True):
            log_probabilities = network.draft_logits(state.unsqueeze(0), torch.tensor(words[-1:]))[0].log_softmax(0)
            score += float(log_probabilities[word])
            if word == EOS:
                return words[1:], score, True, calls
            words.append(word)
            if len(words) == most + 2:  # the slot of the end symbol holds a word: cut
                return words[1:], score, False, calls


@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), seed=st.integers(0, 9), block=st.integers(0, 6),
       prefix=st.sampled_from(["causal", "bidirectional"]), encoder_layers=st.integers(0, 1), chained=st.booleans())
def test_sentence_by_sentence(tiny: Tiny, lengths: list[int], seed: int, block: int, prefix: str,
                              encoder_layers: int, chained: bool) -> None:
    network, source = drafting(tiny(), prefix, seed, encoder_layers, chained), sources(*lengths)
    found = draft.search(network, source, LIMIT, draft.Settings(block))
    assert found.verification is None
    for row, length in enumerate(lengths):
        words, score, ended, calls = by_hand(network, source[row:row + 1, :length], block or 4)
        assert found.tokens[row, 0, :int(found.lengths[row])].tolist() == words
        assert found.scores[row].item() == pytest.approx(score, abs=1e-9)
        assert (found.ended[row].item(), found.calls[row].item()) == (ended, calls)


def test_some_end_and_some_do_not(tiny: Tiny) -> None:
    """Or the property above would say little."""
    source = sources(*range(1, 10))
    ended = torch.cat([draft.search(drafting(tiny(), "causal", seed), source, LIMIT).ended for seed in range(10)])
    assert ended.any() and not ended.all()


def test_what_cannot_be_searched(tiny: Tiny) -> None:
    with pytest.raises(PipelineError, match="block: -1 must be at least 0"):
        draft.Settings(-1)
    with pytest.raises(PipelineError, match="draft searches drafter models, and this one is ordered"):
        make_decoder("draft", {"algorithm": "draft"}, LIMIT)(tiny(), sources(3))
