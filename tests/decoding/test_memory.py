"""Hypotheses that are kept hold ids: no state of a search, and no room that a search did not use."""

from collections.abc import Callable
from typing import Any

import pytest
from drafters import drafter, with_heads
from memory import held_bytes
from sentences import sources
from torch import Tensor

from pipeline.decoding import beam, blockwise, gad, greedy, iad, jacobi, speculative, verify
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.threaded import search_in_threads
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.0, extra=30, longest=47)
SEARCHES = ("greedy", "two words", "beam", "nothing", "iad", "jacobi", "gad", "speculative", "blockwise")


def searches(tiny: Tiny) -> dict[str, Callable[[Tensor], Hypotheses]]:
    verifier, pairs = tiny(seed=1), tiny("interleaved", seed=1)
    network, heads = drafter(verifier), with_heads(verifier)
    found: dict[str, Callable[[Tensor], Hypotheses]] = {
        "greedy": lambda source: greedy.search(verifier, source, LIMIT),
        "two words": lambda source: greedy.search(pairs, source, LIMIT),
        "beam": lambda source: beam.search(verifier, source, LIMIT, beam.Settings(4)),
        "nothing": lambda source: verify.search(verifier, source, LIMIT),
        "iad": lambda source: iad.search(verifier, source, LIMIT),
        "jacobi": lambda source: jacobi.search(verifier, source, LIMIT),
        "gad": lambda source: gad.search(network, source, LIMIT, gad.Settings(20)),
        "speculative": lambda source: speculative.search(network, source, LIMIT),
        "blockwise": lambda source: blockwise.search(heads, source, LIMIT)}
    assert tuple(found) == SEARCHES
    return found


@pytest.mark.parametrize("name", SEARCHES)
def test_a_sentence_that_is_kept_holds_its_ids_and_its_rounds(tiny: Tiny, name: str) -> None:
    batch = sources(*[17] * 8)
    found = search_in_threads(searches(tiny)[name], batch)
    rounds: list[Any] = [] if found.verification is None else found.verification.rounds
    # Of its rounds, two numbers for a round, and for every place of the widest one a drafted and a judged token.
    recorded = int(found.calls.sum()) * (2 * max((one.verdict.shape[1] for one in rounds), default=0) + 2)
    ids = batch.numel() + 4 * len(batch) * LIMIT.longest  # sources, steps, slots and words
    assert held_bytes(search_in_threads(searches(tiny)[name], batch)) <= 8 * (ids + recorded + 16 * len(batch))
