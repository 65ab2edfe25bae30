"""Hypotheses that are kept hold ids: no state of a search, and no room that a search did not use."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from drafters import drafter, with_heads
from sentences import sources
from torch import Tensor, nn

from pipeline.decoding import beam, blockwise, gad, greedy, iad, jacobi, speculative, verify
from pipeline.decoding.apart import search_apart
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.model.transformer import Transformer

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.0, extra=30, longest=47)
SEARCHES = ("greedy", "two words", "beam", "nothing", "iad", "jacobi", "gad", "speculative", "blockwise")


def held_bytes(found: object) -> int:
    """Bytes of all arrays and tensors that something keeps alive, but for networks and what belongs to one."""
    seen: set[int] = set()
    memory: dict[int, int] = {}
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, (nn.Module, type, type(gc))) or (callable(one) and not hasattr(
                one, "__closure__")):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            memory[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
        elif isinstance(one, np.ndarray) and one.base is None:
            memory[one.ctypes.data] = one.nbytes
        if hasattr(one, "__closure__"):  # of a function what it remembers, not the module that it stands in
            waiting += [cell.cell_contents for cell in one.__closure__ or ()]
        else:
            waiting += gc.get_referents(one)
    return sum(memory.values())


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
    found = search_apart(searches(tiny)[name], batch)
    rounds: list[Any] = [] if found.verification is None else found.verification.rounds
    # Of its rounds, two numbers for a round, and for every place of the widest one a drafted and a judged token.
    recorded = int(found.calls.sum()) * (2 * max((one.verdict.shape[1] for one in rounds), default=0) + 2)
    ids = batch.numel() + 4 * len(batch) * LIMIT.longest  # sources, steps, slots and words
    assert held_bytes(search_apart(searches(tiny)[name], batch)) <= 8 * (ids + recorded + 16 * len(batch))
