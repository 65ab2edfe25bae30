"""What every decoder promises, for whatever files `pipeline.decoding` has: a new one is tested here by being there."""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from drafters import drafter, with_heads
from lattices import lattice
from masked import masked
from sentences import sources
from ties import TIE, gap
from torch import Tensor

from pipeline import decoding
from pipeline.blocks import build
from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.decoding.traits import Traits
from pipeline.errors import PipelineError
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.5, extra=4, longest=23)
SOURCE = sources(3, 9, 1, 6, 2, 9, 5)

ALGORITHMS = {one.name: importlib.import_module(f"pipeline.decoding.{one.name}")
              for one in pkgutil.iter_modules(decoding.__path__)}
ALGORITHMS = {name: module for name, module in ALGORITHMS.items() if hasattr(module, "search")}
KINDS = {name: getattr(module, "TRAITS", Traits()).kind for name, module in ALGORITHMS.items()}
SETTINGS: dict[str, dict[str, Any]] = {
    "beam": {"beams": 3}, "pair_beam": {"beams": 3}, "lattice": {"nbest": 2}, "sample": {"nbest": 2}}
"""Of those that have no defaults, or whose defaults say little."""
ORDERS = {"pair_beam": ["interleaved"],
          **{name: ["left_to_right"] for name, kind in KINDS.items() if kind == "lattice"}}
"""Of those that do not search both orders of one word a step: pairs, and lattices, which draft from left to right."""
OF_THEIR_OWN = {"beam", "pair_beam", "sample", "draft", "mask_predict", "lattice", "counts"}
"""What they find is not greedy search's. All others promise that it is."""

every_decoder = pytest.mark.parametrize("name", ALGORITHMS)
every_lossless_decoder = pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in OF_THEIR_OWN])

def lattice_for(verifier: Transformer, seed: int) -> LatticeTransformer:
    network = lattice(seed=seed)
    network.attach_verifier(verifier)
    return network


MODELS: dict[str, Callable[[Transformer, int], Any]] = {
    "ordered": lambda verifier, seed: verifier,
    "masked": lambda verifier, seed: masked(seed=seed),
    "heads": lambda verifier, seed: with_heads(verifier, seed=seed, chained=seed % 2 == 0),
    "drafter": lambda verifier, seed: drafter(verifier, seed=seed, decoder_layers=2, chained=seed % 2 == 0),
    "lattice": lattice_for,
}
"""From a verifier and a seed to a tiny random model of each kind."""


@pytest.fixture(scope="module")
def make(tiny: Tiny) -> Callable[..., tuple[Any, Transformer]]:
    """A function that makes a model that a decoder searches, and its verifier: `make("gad", "right_to_left", 3)`."""
    @cache
    def made(kind: str, order: str, seed: int, dtype: torch.dtype) -> tuple[Any, Transformer]:
        verifier = tiny(order, seed=seed, max_length=24)
        return MODELS[kind](verifier, seed).to(dtype), verifier.to(dtype)
    return lambda name, order, seed, dtype=torch.float64: made(KINDS[name], order, seed, dtype)


def orders_of(name: str) -> list[str]:
    return ORDERS.get(name, ["left_to_right", "right_to_left"])


def search(name: str, model: Any, source: Tensor) -> Hypotheses:
    settings = build(ALGORITHMS[name].Settings, SETTINGS.get(name, {}), name)
    found: Hypotheses = ALGORITHMS[name].search(model, source, LIMIT, settings)
    return found


def words(found: Hypotheses, row: int) -> list[int]:
    return found.tokens[row, 0, :int(found.lengths[row, 0])].tolist()


def test_the_decoders_are_found() -> None:
    assert {"greedy", "verify", "gad", "speculative", "blockwise", "iad", "jacobi", "counts_gad", "lattice_gad",
            *OF_THEIR_OWN} <= set(ALGORITHMS)


@every_decoder
def test_no_sentences(make: Callable[..., Any], name: str) -> None:
    model, _ = make(name, orders_of(name)[0], 0)
    for shape in ((0, 0), (0, 4)):
        found = search(name, model, torch.empty(shape, dtype=torch.long))
        assert found.tokens.shape[:2] == found.lengths.shape == found.scores.shape == found.ended.shape
        assert found.lengths.shape[0] == 0 and found.calls.shape == (0,)
        assert found.verification is None or found.verification.rounds == []


@every_decoder
def test_a_batch_is_its_sentences(make: Callable[..., Any], name: str) -> None:
    """In any order, together and alone; within their limits, and with padding after their ends alone."""
    calls = set[int]()
    for order in orders_of(name):
        for seed in (0, 2):
            model, verifier = make(name, order, seed)
            together, backwards = search(name, model, SOURCE), search(name, model, SOURCE.flip(0))
            # What has not ended may have words where its end would stand.
            assert (together.lengths <= LIMIT.words(SOURCE).unsqueeze(1) + verifier.order.width).all()
            after = torch.arange(together.tokens.shape[2]) >= together.lengths.unsqueeze(2)
            assert together.tokens[after].eq(PAD).all()
            for row, source in enumerate(SOURCE):
                alone = search(name, model, source[source != PAD].unsqueeze(0))
                for found, place in ((alone, 0), (backwards, len(SOURCE) - 1 - row)):
                    assert words(found, place) == words(together, row)
                    assert found.ended[place, 0] == together.ended[row, 0]
                    torch.testing.assert_close(found.scores[place, 0], together.scores[row, 0], rtol=0, atol=1e-9)
            calls |= set(together.calls.tolist())
    assert len(calls) > 1 or calls <= {0, 1}


@every_lossless_decoder
def test_greedy_searchs_output(make: Callable[..., Any], name: str) -> None:
    for order in orders_of(name):
        for seed in range(4):
            model, verifier = make(name, order, seed)
            for source in (SOURCE, SOURCE[1:2]):
                found, expected = search(name, model, source), greedy.search(verifier, source, LIMIT)
                for field in ("tokens", "lengths", "ended"):
                    assert torch.equal(getattr(found, field), getattr(expected, field)), (field, order, seed)
                torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-9)
                assert (found.calls <= expected.calls).all()
                assert name == "greedy" or (found.verification is not None and found.verification.exact)


PREFIXES = [[7], [8, 9, 10, 8], [], [*range(7, 19)] * 2, [11, 11], [], [12]]
"""Of the sentences: of several lengths, and one that is longer than the model has places for."""


@torch.no_grad()
def continued(verifier: Transformer, source: Tensor, prefix: list[int]) -> list[int]:
    """The words of a prefix and of its greedy continuation, word by word, each from a new reading of all."""
    slots, most = list(prefix), min(int(LIMIT.words(source)[0]) + len(prefix), LIMIT.longest) + 1
    while len(slots) < most and EOS not in slots:
        logits = verifier(source, torch.tensor([[*slots, PAD]]))[0, -1]
        slots.append(int(logits.argmax()))
    return [word for word in slots[:most] if word != EOS]


@every_lossless_decoder
def test_a_prefix_is_continued_greedily(make: Callable[..., Any], name: str) -> None:
    model, verifier = make(name, "left_to_right", 2)
    decode = make_decoder(name, {"algorithm": name, **SETTINGS.get(name, {})}, LIMIT)
    expected = [continued(verifier, row[row != PAD].unsqueeze(0), prefix)
                for row, prefix in zip(SOURCE, PREFIXES, strict=True)]
    assert all(one[:len(prefix)] == prefix[:len(one)] for one, prefix in zip(expected, PREFIXES, strict=True))
    together = decode(model, SOURCE, PREFIXES)
    for row, source in enumerate(SOURCE):
        alone = decode(model, source[source != PAD].unsqueeze(0), [PREFIXES[row]])
        assert words(together, row) == words(alone, 0) == expected[row]


@every_decoder
def test_prefixes_change_nothing_if_empty_and_are_kept_or_refused(make: Callable[..., Any], name: str) -> None:
    for order in orders_of(name):
        model, verifier = make(name, order, 2)
        decode = make_decoder(name, {"algorithm": name, **SETTINGS.get(name, {})}, LIMIT)
        plain, empty = decode(model, SOURCE), decode(model, SOURCE, [[]] * len(SOURCE))
        assert torch.equal(plain.tokens, empty.tokens) and torch.equal(plain.scores, empty.scores)
        if name in OF_THEIR_OWN - {"beam", "sample"} or not verifier.order.left_to_right:
            with pytest.raises(PipelineError, match=r"^decoders.* prefix can"):
                decode(model, SOURCE, PREFIXES)
        else:
            found = decode(model, SOURCE, PREFIXES)
            for row, prefix in enumerate(PREFIXES):
                assert words(found, row)[:len(prefix)] == prefix[:LIMIT.longest + 1]


@every_lossless_decoder
def test_greedy_searchs_output_in_single_precision(make: Callable[..., Any], name: str) -> None:
    """Up to words that are as good as equally probable."""
    for order in orders_of(name):
        for seed in range(4):
            model, verifier = make(name, order, seed, torch.float32)
            expected = greedy.search(verifier, SOURCE, LIMIT)
            alone = [search(name, model, row[row != PAD].unsqueeze(0)) for row in SOURCE]
            for row, found in enumerate(alone):
                assert_equal_up_to_ties(verifier, SOURCE[row], words(found, 0), words(expected, row))
            together = search(name, model, SOURCE)
            for row in range(len(SOURCE)):
                assert_equal_up_to_ties(verifier, SOURCE[row], words(together, row), words(expected, row))


@torch.no_grad()
def assert_equal_up_to_ties(verifier: Transformer, source: Tensor, mine: list[int], theirs: list[int]) -> None:
    """The first words that differ, in the order in which they were generated, are as good as equally probable."""
    if mine == theirs:
        return
    slots = [[*(words if verifier.order.name == "left_to_right" else words[::-1]), EOS] for words in (mine, theirs)]
    assert gap(verifier, source, *slots) < TIE, (mine, theirs)
