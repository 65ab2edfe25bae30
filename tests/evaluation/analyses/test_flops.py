"""Operations by formula against those that torch counts, and against sums by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from drafters import drafter
from lattices import lattice
from masked import half_hidden, masked
from operations import counted
from orders import EVERY_ORDER
from sentences import sources
from torch import Tensor

from pipeline.decoding import beam, blockwise, counts_gad, draft, gad, greedy, iad, jacobi, mask_predict, speculative
from pipeline.decoding.limits import LengthLimit
from pipeline.engine import bounds, decoder
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.jacobi.flops import Costs, Counted, compiled_share, sentence_operations
from pipeline.model.heads import BlockwiseHeads
from pipeline.model.settings import NORMS
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=2.0, extra=5, longest=20)


def singles(*lengths: int) -> list[Tensor]:
    return [row[row != PAD].unsqueeze(0) for row in sources(*lengths)]


def tokens(rows: int, count: int) -> Tensor:
    return torch.randint(7, 20, (rows, count), generator=torch.Generator().manual_seed(rows + count))


def heads(verifier: Transformer, **changes: Any) -> BlockwiseHeads:
    torch.manual_seed(7)
    made = BlockwiseHeads(verifier.settings, 20, 20, verifier.order, block=4, **{"chained": False, **changes})
    made.copy_verifier(verifier)
    return made.to(verifier.projection.weight.dtype)


def test_a_small_network_by_hand(tiny: Tiny) -> None:
    costs = Costs.of(tiny(width=4, heads=2, feed_forward=6, encoder_layers=1, decoder_layers=1, vocabulary=20))
    # For each of 3 pieces: queries, keys and values 4 x 12, output 4 x 4, two maps 4 x 6, and 3 keys and values of 4.
    assert costs.encoder(1, 3) == 3 * 2 * (48 + 16 + 24 + 24 + 3 * 4 + 3 * 4)
    assert costs.source(1, 3) == 3 * 2 * (16 + 16)
    # A third token that sees three tokens and three pieces: its own attention, queries and output, two maps.
    assert costs.decoder(1, 1, 2, 3) == 2 * (48 + 16 + 12 + 12 + 16 + 16 + 12 + 12 + 24 + 24)
    assert costs.projection(5) == 5 * 2 * 4 * 20


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("tied", ["all", "none"])
@pytest.mark.parametrize("shape", [{}, {"encoder_layers": 3, "decoder_layers": 1},
                                   {"width": 24, "heads": 3, "feed_forward": 20, "vocabulary": 33}])
def test_whole_sentences(tiny: Tiny, norm: str, tied: str, shape: dict[str, Any]) -> None:
    network = tiny(norm=norm, tied_embeddings=tied, **shape).train()
    source, arranged, costs = sources(5, 9, 3), tokens(3, 7), Costs.of(network)
    assert counted(network, lambda one: one(source, arranged)) == costs.forward(3, 9, 7)
    assert counted(network, lambda one: one(source, arranged).sum().backward()) == costs.training(3, 9, 7)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(("new", "past"), [(1, 0), (1, 7), (4, 0), (4, 7)])
def test_each_verb(tiny: Tiny, norm: str, beams: int, new: int, past: int) -> None:
    network, source, rows = tiny(norm=norm), sources(5, 9), 2 * beams
    costs = Costs.of(network)
    assert counted(network, lambda one: one.encode(source)) == costs.encoder(2, 9)

    def start(one: Transformer) -> Any:
        return one.start(one.encode(source), beams)

    def steps(one: Transformer, *counts: int) -> None:
        state = start(one)
        for count in counts:
            one.step(tokens(rows, count), state)

    begun = counted(network, start)
    assert begun == costs.encoder(2, 9) + costs.source(2, 9)
    before = counted(network, lambda one: steps(one, *[past] * (past > 0)))
    after = counted(network, lambda one: steps(one, *[past] * (past > 0), new))
    assert after - before == costs.step(rows, new, past, 9)


def test_rows_that_are_ragged_cost_as_much_as_the_longest(tiny: Tiny) -> None:
    network, source = tiny(), sources(5, 9)

    def steps(one: Transformer, last: int) -> None:
        state = one.start(one.encode(source))
        one.step(tokens(2, 6), state)
        state.rewind(np.array([2, 5]))
        if last:
            one.step(tokens(2, last), state)

    difference = counted(network, lambda one: steps(one, 2)) - counted(network, lambda one: steps(one, 0))
    assert difference == Costs.of(network).step(2, 2, 5, 9)


def test_nothing_is_compiled_where_torch_counts(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny()
    state = network.start(network.encode(sources(5)))
    network.step(tokens(1, 1), state)  # compiled, and remembered by the network

    def refuse(*arguments: Any) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(decoder, "step", refuse)
    with pytest.raises(AssertionError, match="compiled"):
        network.step(tokens(1, 1), state)
    assert counted(network, lambda one: one.step(tokens(1, 1), one.start(one.encode(sources(5))))) > 0


Search = Callable[[Any, Tensor], Any]
SEARCHES: dict[str, Search] = {
    "greedy": lambda model, source: greedy.search(model, source, LIMIT),
    "beam3": lambda model, source: beam.search(model, source, LIMIT, beam.Settings(3)),
    "pj": lambda model, source: jacobi.search(model, source, LIMIT),
    "pgj3": lambda model, source: jacobi.search(model, source, LIMIT, jacobi.Settings(3)),
    "hgj3": lambda model, source: jacobi.search(model, source, LIMIT, jacobi.Settings(3, hybrid=True)),
    "iad": lambda model, source: iad.search(model, source, LIMIT),
    "gad": lambda model, source: gad.search(model, source, LIMIT),
    "draft": lambda model, source: draft.search(model, source, LIMIT),
    "speculative": lambda model, source: speculative.search(model, source, LIMIT),
    "blockwise": lambda model, source: blockwise.search(model, source, LIMIT),
    "mask_predict": lambda model, source: mask_predict.search(model, source, LIMIT, mask_predict.Settings(3, 2)),
}


def make_model(kind: str, tiny: Tiny) -> Any:
    verifier = tiny()
    return {"ordered": lambda: verifier, "causal": lambda: drafter(verifier),
            "encoder": lambda: drafter(verifier, encoder_layers=1, decoder_layers=2, feed_forward=24),
            "bidirectional": lambda: drafter(verifier, prefix="bidirectional"),
            "heads": lambda: heads(verifier), "masked": masked}[kind]()


@pytest.mark.parametrize(("kind", "search"), [
    *(("ordered", name) for name in ("greedy", "beam3", "pj", "pgj3", "hgj3", "iad")),
    *((kind, name) for kind in ("causal", "encoder") for name in ("gad", "draft", "speculative")),
    ("bidirectional", "gad"), ("heads", "blockwise"), ("masked", "mask_predict")])
def test_a_search_costs_what_torch_counts(tiny: Tiny, kind: str, search: str) -> None:
    model, sentences, found = make_model(kind, tiny), singles(3, 9, 6), []
    seen = counted(model, lambda one: found.extend(sentence_operations(one, SEARCHES[search], sentences)))
    assert seen == sum(found) and len(found) == 3 and min(found) > 0


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_every_order_costs_what_torch_counts(tiny: Tiny, order: str) -> None:
    found: list[int] = []
    seen = counted(tiny(order), lambda one: found.extend(sentence_operations(one, SEARCHES["greedy"], singles(4, 7))))
    assert seen == sum(found)


@pytest.mark.parametrize("made", [heads, drafter])
def test_a_chain_looks_up_what_tokens_say_to_the_next_state(tiny: Tiny, made: Callable[..., Any]) -> None:
    model, found = made(tiny(), chained=True), []
    search = SEARCHES["blockwise" if made is heads else "draft"]
    seen = counted(model, lambda one: found.extend(sentence_operations(one, search, singles(3, 9, 6))))
    assert seen == sum(found) + 2 * 20 * 16 * 32  # the table is made once: 20 tokens, of_previous 16 x 32


def test_a_lattice_costs_what_torch_counts(tiny: Tiny) -> None:
    # Of a single sentence the end symbol's scores are a matrix times a vector, which torch does not count.
    network, source, candidates = lattice(), sources(5, 9), tokens(2, 12).view(2, 4, 3)
    operations: list[int] = []
    counter = Counted(network, operations.append)
    counter.edges(counter.encode(source), candidates)
    single_keys = network.settings.decoder_layers * 2 * 16**3  # made once
    assert counted(network, lambda one: one.edges(one.encode(source), candidates)) == sum(operations) + single_keys
    network.attach_verifier(tiny())
    found: list[int] = []  # of the verifier: counts multiply no matrices
    seen = counted(network, lambda one: found.extend(sentence_operations(
        one, lambda model, source: counts_gad.search(model, source, LIMIT), singles(5))))
    assert seen == found[0] > 0


def test_recorded_steps_by_hand(tiny: Tiny) -> None:
    network, source = tiny(), singles(6)[0]
    costs, hypotheses = Costs.of(network), greedy.search(network, source, LIMIT)
    calls = int(hypotheses.calls[0])
    begun = costs.encoder(1, 6) + costs.source(1, 6)
    assert calls > 2
    assert sentence_operations(network, SEARCHES["greedy"], [source]) == [
        begun + sum(costs.step(1, 1, past, 6) for past in range(calls))]

    def search(model: Any, source: Tensor) -> None:
        state = model.start(model.encode(source), capacity=2)
        model.step(tokens(1, 4), state)
        state.rewind(2)
        model.step(tokens(1, 3), state)

    assert sentence_operations(network, search, [source]) == [  # type: ignore[arg-type]
        begun + costs.step(1, 4, 0, 6) + costs.step(1, 3, 2, 6)]


def test_masked_words_and_lengths_by_hand() -> None:
    network, source = masked(), singles(6)[0]
    costs = Costs.of(network)

    def search(model: Any, source: Tensor) -> None:
        memory = model.encode(source)
        model.lengths(memory)
        state = model.start(memory)
        for _ in range(2):
            state.rewind(0)
            model.step(half_hidden(5), state)

    assert sentence_operations(network, search, [source]) == [  # type: ignore[arg-type]
        costs.encoder(1, 7) + 2 * 16 * 24 + costs.source(1, 6) + 2 * costs.step(1, 5, 0, 6)]


def test_counting_changes_no_translation(tiny: Tiny) -> None:
    model, source, found = drafter(tiny()), singles(7)[0], []
    sentence_operations(model, lambda one, source: found.append(gad.search(one, source, LIMIT)), [source])  # type: ignore[arg-type]
    assert torch.equal(found[0].tokens, gad.search(model, source, LIMIT).tokens)


def test_the_share_of_compiled_code(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    network, sentences = tiny(), singles(5, 8)
    costs, search = Costs.of(network), SEARCHES["greedy"]
    by_torch = sum(costs.encoder(1, S) + costs.source(1, S) for S in (5, 8))
    total = sum(sentence_operations(network, search, sentences))
    assert compiled_share(network, search, sentences) == 1
    monkeypatch.setattr(bounds, "of", lambda width: bounds.Bounds(tokens=64, pieces=0, row=64))
    assert compiled_share(network, search, sentences) == pytest.approx(1 - by_torch / total)
    monkeypatch.setattr(bounds, "of", lambda width: bounds.Bounds(tokens=0, pieces=0, row=64))
    assert compiled_share(network, search, sentences) == 0


def test_several_sentences_at_once_are_refused(tiny: Tiny) -> None:
    with pytest.raises(PipelineError, match="a batch of 2 sentences"):
        sentence_operations(tiny(), SEARCHES["greedy"], [sources(3, 4)])


def test_a_drafter_of_ragged_rows_is_refused(tiny: Tiny) -> None:
    def search(model: Any, source: Tensor) -> None:
        state = model.start(model.draft_memory(source, model.verifier.encode(source)))
        model.continue_greedily(tokens(1, 3), np.array([2]), 2, state)

    with pytest.raises(PipelineError, match="one sentence at a time"):
        sentence_operations(drafter(tiny()), search, singles(4))  # type: ignore[arg-type]
