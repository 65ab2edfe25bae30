"""Every architecture, step by step, against its own library: the forward pass of the whole prefix, and `generate`."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_checkpoints import KINDS, LONGEST, ROWS, model_of, random_network
from sentences import sources
from torch import Tensor

from pipeline.decoding import beam, greedy, iad, jacobi, verify
from pipeline.decoding.beams import LengthPenalty
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.engine import sentence
from pipeline.engine.door import open_engine, use_engine
from pipeline.interop.network import HuggingFaceModel, Renumbered, Symbols, inverse, renumber
from pipeline.interop.transplant import TransplantedModel
from pipeline.model.formats import in_format
from pipeline.vocabulary import BOS, EOS, PAD

WORDS = 12
LIMIT = LengthLimit(0, WORDS, LONGEST - 1)
BATCH = sources(3, 4, 5, 6, 7, 8, 9, 10, vocabulary=ROWS - 10)
every_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def both(kind: str) -> tuple[Any, Renumbered]:
    """Their network, and ours of the same weights."""
    network = random_network(kind)
    return network, model_of(network)


def whole(kind: str, source: Tensor, target: Sequence[int]) -> Tensor:
    """Their logits (T, V), in our numbers, of one source (S,) and a whole target."""
    theirs, ours = both(kind)
    source = source[source != PAD].unsqueeze(0)
    with torch.no_grad():
        logits = theirs(input_ids=ours.source_ids[source],
                        decoder_input_ids=ours.target_ids[torch.tensor([target])]).logits[0]
    logits = logits.index_select(1, ours.target_ids)
    logits[:, [PAD, BOS]] = -torch.inf
    return logits


def generated(network: Any, ours: Renumbered, source: Tensor, **settings: Any) -> list[list[int]]:
    """What their `generate` predicts for sources (B, S), in our numbers, up to the end symbol."""
    found = network.generate(input_ids=ours.source_ids[source], attention_mask=(source != PAD).long(), do_sample=False,
                             max_new_tokens=WORDS + 1, **settings)
    rows = inverse(ours.target_ids)[found[:, 1:]].tolist()
    return [row[:row.index(EOS)] if EOS in row else row[:WORDS + 1] for row in rows]


def predicted(found: Hypotheses) -> list[list[int]]:
    return [row[:length] for row, length in zip(found.tokens[:, 0].tolist(), found.lengths[:, 0].tolist(),
                                                strict=True)]


@given(st.integers(8, 40), st.data())
def test_numbers_go_there_and_back(size: int, data: st.DataObject) -> None:
    pad, end = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True))
    ids = renumber(size, Symbols(pad, data.draw(st.integers(0, size - 1)), end))
    assert (int(ids[PAD]), int(ids[EOS]), len(ids)) == (pad, end, size + 1)
    back = inverse(ids)
    assert ids[back].tolist() == list(range(size)) and BOS not in back.tolist()


@every_kind
def test_whose_layers(kind: str) -> None:
    assert isinstance(both(kind)[1], TransplantedModel if kind.endswith("_own") else HuggingFaceModel)


@pytest.mark.parametrize("change", [
    {"activation_function": "swish"}, {"activation_function": "silu"}, {"activation_function": "gelu"},
    {"scale_embedding": False}, {"activation_function": "gelu_new"}, {"encoder_attention_heads": 2},
    {"decoder_ffn_dim": 16}])
def test_our_layers_where_they_compute_the_same(change: dict[str, Any]) -> None:
    network = random_network("marian_own", changes=change)
    ours = model_of(network)
    assert isinstance(ours, TransplantedModel) == (
        change.get("activation_function") in ("swish", "silu", "gelu") or "scale_embedding" in change)
    assert predicted(greedy.search(ours, BATCH, LIMIT)) == generated(network, ours, BATCH, num_beams=1)


def test_a_bias_of_the_logits_is_added() -> None:
    """As OPUS-MT has it, and its activation function."""
    network = random_network("marian_own", changes={"activation_function": "swish"})
    network.final_logits_bias.copy_(torch.randn(1, ROWS).double())
    ours = model_of(network)
    assert isinstance(ours, TransplantedModel)
    expected = generated(network, ours, BATCH, num_beams=1)
    assert expected != generated(*both("marian_own"), BATCH, num_beams=1)
    assert predicted(greedy.search(ours, BATCH, LIMIT)) == expected
    alone = [row[row != PAD].unsqueeze(0) for row in BATCH]
    assert [predicted(greedy.search(open_engine(ours), row, LIMIT))[0] for row in alone] == expected
    rounded = open_engine(in_format(ours, "int8"))
    assert sentence.greedy(rounded, rounded.start(rounded.encode(alone[0])), np.array([9])) is not None
    compiled = [predicted(greedy.search(rounded, row, LIMIT)) for row in alone]
    with use_engine("torch"):
        assert [predicted(greedy.search(rounded, row, LIMIT)) for row in alone] == compiled


@every_kind
def test_one_sentence_alone(kind: str) -> None:
    """Where the layers are ours it is one compiled call."""
    network, ours = both(kind)
    for row in BATCH:
        source = row[row != PAD].unsqueeze(0)
        expected = generated(network, ours, source, num_beams=1)
        assert predicted(greedy.search(open_engine(ours), source, LIMIT)) == expected
        assert predicted(jacobi.search(open_engine(ours), source, LIMIT, jacobi.Settings(3, True))) == expected
    opened = open_engine(ours)
    taken = sentence.greedy(opened, opened.start(opened.encode(BATCH[:1])), np.array([9]))
    assert (taken is not None) == isinstance(ours, TransplantedModel)


def test_alone_nothing_is_predicted_that_is_suppressed() -> None:
    network, free = both("marian_own")
    for row in BATCH:
        source = row[row != PAD].unsqueeze(0)
        words = predicted(greedy.search(open_engine(free), source, LIMIT))[0]
        common = int(free.target_ids[words[0] if words else EOS + 1])
        for given_, symbols in (({"suppress_tokens": [common, 19]}, {"suppressed": (common, 19)}),
                                ({"begin_suppress_tokens": [common]}, {"suppressed_first": (common,)})):
            ours = model_of(network, **symbols)
            found = predicted(greedy.search(open_engine(ours), source, LIMIT))
            assert found == generated(network, ours, source, num_beams=1, **given_)


@every_kind
def test_any_steps_selections_and_rewinds(kind: str) -> None:
    """A state that is moved about at random predicts what the whole prefix predicts, row by row."""
    ours = both(kind)[1]
    ids = st.integers(3, len(ours.target_ids) - 1)

    @settings(max_examples=8)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        rows = list(range(data.draw(st.integers(1, 4))))
        state = ours.start(ours.encode(BATCH[:len(rows)]), capacity=2)
        prefixes: list[list[int]] = [[] for _ in rows]
        for _ in range(data.draw(st.integers(1, 4))):
            n = data.draw(st.integers(1, 4))
            new = [[*([BOS] if not prefix else []), *data.draw(st.lists(ids, min_size=n, max_size=n))][:n]
                   for prefix in prefixes]
            logits = ours.step(torch.tensor(new), state)
            prefixes = [prefix + tokens for prefix, tokens in zip(prefixes, new, strict=True)]
            for row, prefix, found in zip(rows, prefixes, logits, strict=True):
                expected = whole(kind, BATCH[row], prefix)[-n:]
                torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
            lengths = [data.draw(st.integers(0, len(prefix))) for prefix in prefixes]
            state.rewind(np.array(lengths) if len(set(lengths)) > 1 else lengths[0])
            prefixes = [prefix[:length] for prefix, length in zip(prefixes, lengths, strict=True)]
            if len(rows) > 1 and data.draw(st.booleans()):
                kept = data.draw(st.lists(st.sampled_from(range(len(rows))), min_size=1, max_size=len(rows) - 1,
                                          unique=True))
                state.select(torch.tensor(kept))
                rows, prefixes = [rows[row] for row in kept], [prefixes[row] for row in kept]
    check()


@every_kind
def test_in_single_precision(kind: str) -> None:
    """To 1e-5, or, where their own single precision is further from double precision, about as near as that."""
    single = random_network(kind).float()
    ours = model_of(single).float()
    target = torch.tensor([[BOS, 8, 9, 10, 7, 12]])
    state = ours.start(ours.encode(BATCH[:1, :3]))
    found = torch.cat([ours.step(target[:, :2], state), ours.step(target[:, 2:], state)], 1)[0]
    exact, words = whole(kind, BATCH[0], target[0].tolist()), ours.target_ids[3:]
    with torch.no_grad():
        theirs = single(input_ids=ours.source_ids[BATCH[:1, :3]], decoder_input_ids=ours.target_ids[target]).logits[0]
    error = float((theirs[:, words] - exact[:, 3:]).abs().max())
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=max(1e-5, 4 * error))
    assert error < 1e-3


@every_kind
def test_greedy_search_is_theirs(kind: str) -> None:
    theirs, ours = both(kind)
    found = greedy.search(ours, BATCH, LIMIT)
    assert predicted(found) == generated(theirs, ours, BATCH, num_beams=1)
    assert 0 < int(found.ended.sum()) < len(BATCH)


DRAFTING: dict[str, Callable[[Renumbered, Tensor], Hypotheses]] = {
    "nothing": lambda model, source: verify.search(model, source, LIMIT),
    "iad": lambda model, source: iad.search(model, source, LIMIT),
    "pj": lambda model, source: jacobi.search(model, source, LIMIT),
    "pgj3": lambda model, source: jacobi.search(model, source, LIMIT, jacobi.Settings(block=3, start="source")),
    "hgj3": lambda model, source: jacobi.search(model, source, LIMIT, jacobi.Settings(block=3, hybrid=True)),
}


@every_kind
@pytest.mark.parametrize("drafting", DRAFTING)
def test_drafts_change_nothing(kind: str, drafting: str) -> None:
    ours = both(kind)[1]
    expected, found = greedy.search(ours, BATCH, LIMIT), DRAFTING[drafting](ours, BATCH)
    assert predicted(found) == predicted(expected)
    torch.testing.assert_close(found.scores, expected.scores)
    if drafting == "pj":
        assert int(found.calls.sum()) < int(expected.calls.sum())


@every_kind
def test_a_batch_is_its_sentences(kind: str) -> None:
    ours = both(kind)[1]
    for search in (*DRAFTING.values(), lambda model, source: beam.search(model, source, LIMIT, beam.Settings(3))):
        together = search(ours, BATCH)
        for row in range(0, len(BATCH), 3):
            source = BATCH[row][BATCH[row] != PAD].unsqueeze(0)
            alone = search(ours, source)
            assert predicted(alone) == predicted(together)[row:row + 1]
            torch.testing.assert_close(alone.scores[0], together.scores[row])


@every_kind
def test_beam_search_is_theirs(kind: str) -> None:
    """Both stop a sentence when K hypotheses are finished, and divide by the length, end symbol included.

    They differ in what becomes of unfinished ones at the limit, so only what has ended is compared.
    """
    theirs, ours = both(kind)
    found = beam.search(ours, BATCH, LIMIT, beam.Settings(3, LengthPenalty("average", 1.0)))
    expected = generated(theirs, ours, BATCH, num_beams=3, length_penalty=1.0, early_stopping=True)
    ended = found.ended[:, 0].nonzero().flatten().tolist()
    assert ended and [predicted(found)[row] for row in ended] == [expected[row] for row in ended]


@every_kind
def test_scores_of_beams_are_those_of_their_tokens(kind: str) -> None:
    ours = both(kind)[1]
    found = beam.search(ours, BATCH, LIMIT, beam.Settings(4, LengthPenalty("average", 0.0), nbest=4))
    for row in range(len(BATCH)):
        for n in range(4):
            tokens = found.tokens[row, n, :int(found.lengths[row, n])].tolist() + [EOS] * int(found.ended[row, n])
            logits = whole(kind, BATCH[row], [BOS, *tokens[:-1]]).log_softmax(1)
            score = logits[range(len(tokens)), tokens].sum()
            torch.testing.assert_close(score, found.scores[row, n])


@every_kind
def test_what_must_and_must_not_be_predicted(kind: str) -> None:
    """A forced first token, tokens that are never predicted, and those that do not come first."""
    theirs, ours = both(kind)
    plain = greedy.search(ours, BATCH, LIMIT)
    words = [ours.target_ids[row].tolist() for row in predicted(plain) if row]
    common, firsts = words[0][0], sorted({row[0] for row in words})
    for settings_, symbols in (
            ({"forced_bos_token_id": 17}, {"first": 17}),
            ({"suppress_tokens": [common, 19]}, {"suppressed": (common, 19)}),
            ({"begin_suppress_tokens": firsts}, {"suppressed_first": tuple(firsts)})):
        model = model_of(theirs, **symbols)
        found = greedy.search(model, BATCH, LIMIT)
        assert predicted(found) == generated(theirs, model, BATCH, num_beams=1, **settings_)
        assert predicted(found) != predicted(plain)
        assert predicted(jacobi.search(model, BATCH, LIMIT)) == predicted(found)


def test_the_first_token_is_forced_after_a_rewind_to_the_start_too() -> None:
    model = model_of(both("mbart")[0], first=17)
    state = model.start(model.encode(BATCH[:2]))
    model.step(torch.tensor([[BOS, 8, 9], [BOS, 8, 9]]), state)
    state.rewind(np.array([0, 2]))
    logits = model.step(torch.tensor([[BOS], [9]]), state)
    forced = inverse(model.target_ids)[17]
    assert int(logits[0].isfinite().sum()) == 1 and bool(logits[0, 0, forced].isfinite())
    assert int(logits[1].isfinite().sum()) == logits.shape[2] - 2


def test_a_token_that_the_checkpoint_does_not_have() -> None:
    model = both("marian_separate")[1]
    state = model.start(model.encode(BATCH[:1]))
    with pytest.raises(IndexError):
        model.step(torch.tensor([[len(model.target_ids)]]), state)
