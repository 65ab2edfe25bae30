"""Drafts from counts and lattices: greedy search's output, and continuations that enumeration finds as well."""

from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import lattice
from scripted_lattice import Row, ScriptedLattice, Sentence
from sentences import sources
from torch import Tensor

from pipeline.decoding import counts_gad, greedy, lattice_gad
from pipeline.decoding.lattice import windowed
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.continuation import continuations, read_on
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(1.5, 4, 20)
SEARCHES = {"counts_gad": lambda model, source, block: counts_gad.search(
                model, source, LIMIT, counts_gad.Settings(block)),
            "lattice_gad": lambda model, source, block: lattice_gad.search(
                model, source, LIMIT, lattice_gad.Settings(candidates=4, window=1, block=block))}


# The output.

@settings(max_examples=8)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9), seed=st.integers(0, 9), block=st.integers(1, 30))
@pytest.mark.parametrize("name", SEARCHES)
def test_greedy_searchs_output(tiny: Tiny, name: str, lengths: list[int], seed: int, block: int) -> None:
    verifier, source = tiny(seed=seed), sources(*lengths)
    network = lattice(seed=seed)
    network.attach_verifier(verifier)
    expected = greedy.search(verifier, source, LIMIT)
    found = SEARCHES[name](network, source, block)
    for field in ("tokens", "lengths", "ended"):
        assert torch.equal(getattr(found, field), getattr(expected, field)), field
    assert torch.allclose(found.scores, expected.scores, atol=1e-9) and (found.calls <= expected.calls).all()
    assert found.verification is not None
    assert found.verification.drafter_calls.tolist() == [int(name == "lattice_gad")] * len(source)


def foreknowing(verifier: Transformer, source: Tensor, decoys: int = 2) -> ScriptedLattice:
    """Its first candidates are the greedy translations, and its steps prefer them."""
    found, script = greedy.search(verifier, source, LIMIT), {}
    for row, pieces in enumerate(source.tolist()):
        words = found.tokens[row, 0, :int(found.lengths[row])].tolist()
        steps = torch.full((len(words) + 1, 20, 20), -5.0, dtype=torch.float64)
        for t, (before, word) in enumerate(zip([BOS, *words], [*words, EOS], strict=True)):
            steps[t, before, word] = -0.1
        others = [[other for other in range(7, 20) if other != word][:decoys] for word in words]
        script[tuple(piece for piece in pieces if piece != PAD)] = Sentence(
            len(words), [{word: -0.5, **dict.fromkeys(some, -3.0)} for word, some in zip(words, others, strict=True)],
            steps)

    def known(pieces: Row) -> Sentence:
        return script[pieces]
    model = ScriptedLattice(known)
    model.verifier = verifier  # type: ignore[attr-defined]
    return model


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("block", [1, 3, 4])
def test_who_knows_what_comes_is_asked_seldom(tiny: Tiny, name: str, block: int) -> None:
    outcomes = set()
    for seed, length in ((3, 6), (5, 8), (29, 9), (32, 8)):
        verifier, source = tiny(seed=seed), sources(length)
        expected = greedy.search(verifier, source, LIMIT)
        assert int(expected.lengths) > 0
        outcomes.add(bool(expected.ended))
        found = SEARCHES[name](foreknowing(verifier, source), source, block)
        assert torch.equal(found.tokens, expected.tokens)
        # A draft and the verifier's own token a call; of what is drafted, nothing is wrong.
        assert int(found.calls) == -(-int(expected.calls) // (block + 1))
    assert outcomes == {True, False}  # an end, and a cut at the limit


@pytest.mark.parametrize("name", SEARCHES)
def test_a_lattice_without_a_verifier(name: str) -> None:
    with pytest.raises(PipelineError, match="verifier: this lattice has none to draft for; name one in its") as caught:
        SEARCHES[name](lattice(), sources(4), 3)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("settings_of", "value", "message"), [
    (counts_gad.Settings, {"block": 0}, "block: 0 must be at least 1"),
    (lattice_gad.Settings, {"block": 0}, "block: 0 must be at least 1"),
    (lattice_gad.Settings, {"candidates": 0}, "candidates: 0 must be at least 1"),
    (lattice_gad.Settings, {"window": -1}, "window: -1 must be at least 0"),
])
def test_settings_that_make_no_sense(settings_of: type, value: dict[str, int], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        settings_of(**value)


# Continuations.

def random_edges(seed: int, B: int, N: int, K: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of which some are impossible and some are NaN."""
    choose = np.random.default_rng(seed)
    edges = [choose.normal(size=shape) for shape in ((B, K), (B, N - 1, K, K), (B, N, K))]
    for scores in edges:
        scores[choose.random(scores.shape) < 0.2] = -np.inf
        scores[choose.random(scores.shape) < 0.05] = np.nan
    return edges[0], edges[1], edges[2]


def best_by_hand(inner: np.ndarray, end: np.ndarray, t: int, first: np.ndarray) -> tuple[float, list[int]]:
    """The best of all paths from a position on, given what each of its states costs; nothing where none is possible."""
    (N, K), best, path = end.shape, -np.inf, []
    for last in range(t, N):
        for states in product(range(K), repeat=last - t + 1):
            score = first[states[0]] + end[last, states[-1]]
            for place, (i, j) in enumerate(pairwise(states)):
                score += inner[t + place, i, j]
            if score > best:
                best, path = score, list(states)
    return best, path


@settings(max_examples=25)
@given(seed=st.integers(0, 2**16), N=st.integers(1, 4), K=st.integers(1, 3))
def test_continuations_by_enumeration(seed: int, N: int, K: int) -> None:
    first, inner, end = random_edges(seed, 2, N, K)
    following, entries = np.empty((2, N, K), np.int64), np.empty((2, N), np.int64)
    continuations(first, inner, end, following, entries)

    def followed(b: int, t: int, state: int) -> list[int]:
        path = []
        while state >= 0:
            path.append(state)
            t, state = t + 1, following[b, t, state]
        return path
    for b, t in product(range(2), range(N)):
        entering = first[b] if t == 0 else np.zeros(K)
        assert followed(b, t, entries[b, t]) == best_by_hand(inner[b], end[b], t, entering)[1]
        for i in range(K):
            alone = np.where(np.arange(K) == i, 0.0, -np.inf)
            assert followed(b, t, i) == (best_by_hand(inner[b], end[b], t, alone)[1] or [i])


WORDS = [[10, 11], [12, 13], [14, 15], [16, 17]]
FOLLOWING = [[1, 0], [0, 1], [1, 0], [-1, -1]]
ENTRIES = [1, 1, 0, -1]
READ: dict[str, tuple[int, int, list[int]]] = {
    "the start": (-1, BOS, [11, 12, 14]), "its own position": (1, 13, [15, 16]),
    "the position before": (2, 13, [15, 16]), "the position after": (0, 12, [14, 17]),
    "its own position first": (1, 12, [14, 17]), "no candidate": (0, 19, [13, 15, 16]),
    "no candidate, and no entry": (2, 19, []), "the last position": (3, 16, []), "after the last": (4, 17, []),
    "far after": (9, 17, []), "a word of a position too far away": (0, 14, [13, 15, 16]),
}


@pytest.mark.parametrize("case", READ)
def test_where_a_draft_is_read_from(case: str) -> None:
    place, last, expected = READ[case]
    draft = np.full(3, PAD)
    count = read_on(np.array(WORDS), np.array(FOLLOWING), np.array(ENTRIES), place, last, draft)
    assert draft.tolist() == expected + [PAD] * (3 - len(expected)) and count == len(expected)


def test_a_limit_below_the_window_leaves_the_longest_translations() -> None:
    network, source = lattice(seed=3), sources(9, 6)
    words, edges, _ = windowed(network, source, LengthLimit(0, 2, 2), candidates=4, window=1)
    assert (network.length(source) > 3).all() and words.shape[1] == 2
    assert (edges.end[:, 0] == -torch.inf).all() and (edges.end[:, 1] > -torch.inf).any(1).all()
