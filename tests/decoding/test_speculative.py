"""Speculative decoding: greedy search's output, from drafts that are the small model's own greedy continuation."""

from collections.abc import Callable

import pytest
import torch
from acceptance import assert_rounding_costs_little
from drafters import drafter, unrounded
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import BATCHES, sources
from torch import Tensor

from pipeline.decoding import greedy, speculative
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.model.drafter import DrafterTransformer
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.5, extra=4, longest=47)


def small_model(verifier: Transformer, **changes: object) -> DrafterTransformer:
    """A drafter whose projection is made of bytes, so that the compiled way rounds nothing away."""
    model = drafter(verifier, block=1, **changes)  # type: ignore[arg-type]
    with torch.no_grad():
        weight = model.projection.weight
        scale = weight.abs().amax(1, keepdim=True) / 127
        weight.copy_((weight / scale).round() * scale)
    model.clear_caches()
    return model


@torch.no_grad()
def continued(model: DrafterTransformer, source: Tensor, prefix: list[int], count: int) -> list[int]:
    """One sentence, every token from the start."""
    predicted: list[int] = []
    memory = model.draft_memory(source, model.verifier.encode(source))
    for _ in range(count):
        logits = model.step(torch.tensor([[*prefix, *predicted]]), model.start(memory))
        predicted.append(int(logits[0, -1].argmax()))
    return predicted


@given(BATCHES, st.integers(1, 30), st.integers(0, 2), st.integers(1, 2), st.sampled_from(["pre", "post"]),
       st.sampled_from(["sinusoidal", "learned"]), st.integers(0, 3))
@settings(max_examples=30)
def test_greedy_searchs_output(tiny: Tiny, source: Tensor, block: int, encoder_layers: int, decoder_layers: int,
                               norm: str, positions: str, seed: int) -> None:
    verifier = tiny(norm=norm, positions=positions)
    model = small_model(verifier, encoder_layers=encoder_layers, decoder_layers=decoder_layers, norm=norm,
                        positions=positions, seed=seed)
    expected = greedy.search(verifier, source, LIMIT)
    for rows in (source, *source.split(1)[:2]):
        rows = rows[:, :max(1, int((rows != PAD).sum(1).max()))]
        found = speculative.search(model, rows, LIMIT, speculative.Settings(block))
        assert found.verification is not None
        first = 0 if len(rows) == len(source) else next(
            row for row in range(len(source)) if torch.equal(source[row, :rows.shape[1]], rows[0]))
        for row in range(len(rows)):
            length = int(expected.lengths[first + row])
            assert int(found.lengths[row]) == length
            assert torch.equal(found.tokens[row, 0, :length], expected.tokens[first + row, 0, :length])
        drafted = torch.zeros_like(found.calls)
        for one in found.verification.rounds:
            drafted[one.sentences] += one.draft.shape[1]
        assert torch.equal(drafted, found.verification.drafter_calls)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("decoder_layers", [1, 2])
@pytest.mark.parametrize("together", [True, False])  # alone they are compiled
def test_drafts_are_the_small_models_own_continuation(tiny: Tiny, norm: str, decoder_layers: int,
                                                      together: bool) -> None:
    verifier, source, rounds = tiny(norm=norm, seed=1 if norm == "post" else 0), sources(7, 6, 2, 9, 11), 0
    model = small_model(verifier, decoder_layers=decoder_layers, norm=norm)
    for rows in [source] if together else [row[row != PAD].unsqueeze(0) for row in source]:
        with unrounded():
            found = speculative.search(model, rows, LIMIT, speculative.Settings(3))
        assert found.verification is not None
        prefixes: list[list[int]] = [[BOS] for _ in rows]
        for one in found.verification.rounds:
            for row, sentence in enumerate(one.sentences.tolist()):
                alone, prefix = rows[sentence][rows[sentence] != PAD].unsqueeze(0), prefixes[sentence]
                assert one.draft[row].tolist() == continued(model, alone, prefix, one.draft.shape[1])
                prefix += one.verdict[row, :int(one.accepted[row])].tolist()
        rounds += len(found.verification.rounds)
    assert rounds > 5


@pytest.mark.parametrize("k", [1, 3, 8])
def test_a_drafter_that_agrees_saves_all_calls(tiny: Tiny, k: int) -> None:
    verifier, source = tiny(seed=0), sources(5)
    model = drafter(verifier, block=1, decoder_layers=2)  # the verifier's own weights
    slots = int(greedy.search(verifier, source, LIMIT).calls)
    found = speculative.search(model, source, LIMIT, speculative.Settings(k))
    assert slots > 3 and found.calls.tolist() == [-(-slots // (k + 1))]


def test_rounding_saves_as_many_calls(tiny: Tiny) -> None:
    """The drafter is the verifier: rounded, it says something else now and then."""
    for seed in range(3):
        verifier = tiny(seed=seed)
        model = drafter(verifier, block=1, decoder_layers=2)
        assert_rounding_costs_little(lambda row, model=model: speculative.search(model, row, LIMIT),
                                     model, sources(*range(2, 12)), least=3.3)


def test_what_cannot_be(tiny: Tiny) -> None:
    with pytest.raises(PipelineError, match="block: 0 must be at least 1"):
        speculative.Settings(0)
    model = drafter(tiny(), prefix="bidirectional")
    with pytest.raises(PipelineError, match=r"cannot predict tokens one by one; choose .* drafting\.prefix causal"):
        speculative.search(model, sources(4), LIMIT)
