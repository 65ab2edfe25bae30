"""Chains small enough for all their paths to be written down, and larger ones by an independent library."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pipeline.decoding.chain import Edges, Paths, best_paths, log_partition, recorded_viterbi, viterbi
from pipeline.errors import PipelineError

INF, NAN = math.inf, math.nan
Path = tuple[float, tuple[int, ...]]
"""A score and states."""
SEARCHES: tuple[Callable[[Edges], Paths], ...] = (
    viterbi, recorded_viterbi, lambda edges: best_paths(edges, 1), lambda edges: best_paths(edges, 3),
    lambda edges: best_paths(edges, 3, associative=True))


def chains(B: int, N: int, K: int, *, seed: int = 1, tied: bool = False, impossible: float = 0.0,
           dtype: torch.dtype = torch.float64) -> Edges:
    """Random chains; mostly -1, 0 and 1 for many ties, or any numbers; a share of the scores is impossible."""
    generator = torch.Generator().manual_seed(seed)

    def scores(*shape: int) -> Tensor:
        values = torch.randn(shape, generator=generator, dtype=torch.float64).mul_(2).to(dtype)
        never = torch.rand(shape, generator=generator) < impossible
        return (values.div(3).round() if tied else values).masked_fill(never, -INF)

    return Edges(scores(B, K), scores(B, N - 1, K, K), scores(B, N, K))


@st.composite
def small_chains(draw: st.DrawFn) -> Edges:
    return chains(draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4)),
                  seed=draw(st.integers(0, 10**6)), tied=draw(st.booleans()),
                  impossible=draw(st.sampled_from([0.0, 0.3, 0.8])))


def every_path(edges: Edges, row: int, divisors: Tensor | None = None) -> list[Path]:
    """All possible paths of a chain, best first, in the order that is promised where they tie."""
    first, inner, end = (scores[row].tolist() for scores in edges)
    found = []
    for length in range(1, len(end) + 1):
        for states in itertools.product(range(len(first)), repeat=length):
            score = first[states[0]]
            for t in range(length - 1):
                score += inner[t][states[t]][states[t + 1]]
            score += end[length - 1][states[-1]]
            if score > -INF:
                found.append((score if divisors is None else score / divisors[length - 1].item(), states))
    return sorted(found, key=lambda path: (-path[0], len(path[1]), path[1][::-1]))


def written(paths: Paths, row: int) -> list[Path]:
    """The paths of a chain that exist; the missing ones must look like it."""
    found = []
    for score, length, states in zip(*(one[row].tolist() for one in paths), strict=True):
        assert (score == -INF) == (length == 0) and not any(states[length:])
        if length:
            found.append((score, tuple(states[:length])))
    return found


def assert_same(paths: Paths, others: Paths, tolerance: float = 0.0) -> None:
    assert torch.equal(paths.lengths, others.lengths) and torch.equal(paths.states, others.states)
    torch.testing.assert_close(paths.scores, others.scores, rtol=0, atol=tolerance)


def part(edges: Edges, rows: slice) -> Edges:
    return Edges(*(scores[rows] for scores in edges))


# Against enumeration.

@given(small_chains(), st.integers(1, 7))
def test_the_k_best_paths(edges: Edges, k: int) -> None:
    paths = best_paths(edges, k)
    assert paths.scores.shape == paths.lengths.shape == paths.states.shape[:2] == (len(edges.first), k)
    for row in range(len(edges.first)):
        assert written(paths, row) == every_path(edges, row)[:k]


@given(small_chains(), st.integers(1, 7))
def test_the_scan_finds_the_k_best_paths(edges: Edges, k: int) -> None:
    scanned = best_paths(edges, k, associative=True)
    for row in range(len(edges.first)):
        expected = every_path(edges, row)[:k]
        assert [states for _, states in written(scanned, row)] == [states for _, states in expected]
        assert [score for score, _ in written(scanned, row)] == pytest.approx([score for score, _ in expected])


@given(small_chains())
def test_viterbi_is_the_best_path(edges: Edges) -> None:
    for search in (viterbi, recorded_viterbi):
        paths = search(edges)
        for row in range(len(edges.first)):
            assert written(paths, row) == every_path(edges, row)[:1]


@given(small_chains(), st.integers(1, 4))
def test_divided_scores_are_compared(edges: Edges, k: int) -> None:
    divisors = torch.tensor([1.0, 2.5, 4.0, 5.5], dtype=torch.float64)[:edges.end.shape[1]]
    paths, best = best_paths(edges, k, divisors), viterbi(edges, divisors)
    for row in range(len(edges.first)):
        expected = every_path(edges, row, divisors)
        assert written(paths, row) == expected[:k] and written(best, row) == expected[:1]


@pytest.mark.parametrize("associative", [False, True])
@given(edges=small_chains())
def test_the_partition_and_its_gradient_are_those_of_all_paths(edges: Edges, associative: bool) -> None:
    leaves = Edges(*(scores.requires_grad_() for scores in edges))
    found = log_partition(leaves, associative=associative)
    marginals = torch.autograd.grad(found[found > -INF].sum(), leaves, materialize_grads=True)
    first, inner, end = (torch.zeros_like(scores) for scores in edges)
    for row in range(len(found)):
        paths = every_path(edges, row)
        total = sum(math.exp(score) for score, _ in paths)
        assert found[row].item() == (pytest.approx(math.log(total), abs=1e-9) if paths else -INF)
        for score, states in paths:
            share = math.exp(score) / total
            first[row, states[0]] += share
            end[row, len(states) - 1, states[-1]] += share
            for t, (before, after) in enumerate(itertools.pairwise(states)):
                inner[row, t, before, after] += share
    for marginal, expected in zip(marginals, (first, inner, end), strict=True):
        torch.testing.assert_close(marginal, expected, rtol=0, atol=1e-9)


def test_sentences_without_a_path_have_gradient_zero() -> None:
    edges = Edges(*(scores.requires_grad_() for scores in chains(2, 3, 2)))
    total = log_partition(edges._replace(end=edges.end.masked_fill(torch.tensor([True, False])[:, None, None], -INF)))
    assert total[0] == -INF
    total[1].backward()
    for scores in edges:
        assert scores.grad is not None and not scores.grad[0].any() and scores.grad[1].any()


# Against another library.

def by_torch_struct(edges: Edges, length: int) -> Any:
    """Its chains have one length each, two positions at least, and no scores of their own for the two ends."""
    struct = pytest.importorskip("torch_struct")
    potentials = edges.inner[:, :length - 1].transpose(2, 3).clone()  # [b, t, state of t + 1, state of t]
    potentials[:, 0] += edges.first.unsqueeze(1)
    potentials[:, -1] += edges.end[:, length - 1].unsqueeze(2)
    return struct.LinearChainCRF(potentials)


@pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`")
@pytest.mark.parametrize(("N", "K"), [(2, 3), (9, 5), (12, 16)])
def test_torch_struct_agrees_on_chains_of_one_length(N: int, K: int) -> None:
    edges = chains(3, N, K)
    edges.end[:, :-1] = -INF
    theirs, paths = by_torch_struct(edges, N), viterbi(edges)
    torch.testing.assert_close(log_partition(edges), theirs.partition.detach())
    torch.testing.assert_close(paths.scores[:, 0], theirs.max.detach())
    torch.testing.assert_close(best_paths(edges, 5).scores.t(), theirs.kmax(5).detach())
    steps = theirs.argmax.detach()  # 1 where the best path goes
    for row, states in enumerate(paths.states[:, 0].tolist()):
        assert steps[row].nonzero().tolist() == [[t, states[t + 1], states[t]] for t in range(N - 1)]


@pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`")
def test_torch_struct_agrees_on_all_lengths_together() -> None:
    edges = chains(2, 6, 4)
    edges.end[:, 0] = -INF
    theirs = [by_torch_struct(edges, length) for length in range(2, 7)]
    partitions, highest = (torch.stack(each).detach()
                           for each in ([one.partition for one in theirs], [one.max for one in theirs]))
    torch.testing.assert_close(log_partition(edges), partitions.logsumexp(0))
    torch.testing.assert_close(viterbi(edges).scores[:, 0], highest.amax(0))


# One with another.

@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("B", "N", "K"), [(1, 1, 1), (1, 25, 16), (7, 12, 33), (2, 30, 64)])
@pytest.mark.parametrize("impossible", [0.0, 0.4])
def test_the_kernel_gives_the_bits_of_torch(B: int, N: int, K: int, impossible: float, dtype: torch.dtype) -> None:
    edges = chains(B, N, K, impossible=impossible, dtype=dtype)
    divisors = torch.arange(2, N + 2, dtype=dtype) ** 0.7
    assert viterbi(edges).scores.dtype == dtype
    for search in (viterbi, recorded_viterbi):
        assert_same(search(edges), best_paths(edges, 1))
        assert_same(search(edges, divisors), best_paths(edges, 1, divisors))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("N", [1, 2, 3, 8, 13, 16])
def test_the_scan_finds_what_the_serial_search_finds(N: int, k: int) -> None:
    edges = chains(2, N, 6, impossible=0.2, dtype=torch.float32)
    assert_same(best_paths(edges, k, associative=True), best_paths(edges, k), tolerance=1e-4)
    torch.testing.assert_close(log_partition(edges, associative=True), log_partition(edges))


def test_scores_of_another_layout_type_or_graph() -> None:
    edges = chains(2, 5, 4)
    expected = best_paths(edges, 1)
    assert_same(viterbi(edges._replace(inner=edges.inner.transpose(2, 3).contiguous().transpose(2, 3))), expected)
    assert_same(viterbi(Edges(*(scores.clone().requires_grad_() for scores in edges))), expected)
    half = Edges(*(scores.bfloat16() for scores in edges))
    assert viterbi(half).scores.dtype == torch.bfloat16
    assert_same(viterbi(half), best_paths(half, 1))


def test_a_batch_is_its_chains() -> None:
    edges = chains(5, 6, 4, impossible=0.3)
    for row in range(5):
        alone, here = part(edges, slice(row, row + 1)), slice(row, row + 1)
        for search in SEARCHES:
            assert_same(search(alone), Paths(*(one[here] for one in search(edges))))
        assert log_partition(alone).item() == pytest.approx(log_partition(edges)[row].item(), abs=1e-12)


@given(small_chains(), st.sampled_from([0.0, 3.0, -INF, INF, NAN]))
def test_padding_changes_nothing(edges: Edges, padding: float) -> None:
    """Positions after the last end and states that cannot be reached, whatever their scores are."""
    B, N, K = edges.end.shape
    wide = Edges(torch.full((B, K + 2), padding), torch.full((B, N + 2, K + 2, K + 2), padding),
                 torch.full((B, N + 3, K + 2), padding))
    wide = Edges(*(scores.double() for scores in wide))
    wide.first[:, K:] = wide.inner[:, :, :, K:] = wide.end[:, N:] = -INF
    for whole, piece in zip(wide, edges, strict=True):
        whole[tuple(slice(size) for size in piece.shape)] = piece
    for search in SEARCHES:
        plain, padded = search(edges), search(wide)
        assert_same(padded._replace(states=padded.states[:, :, :N]), plain, tolerance=1e-12)
    torch.testing.assert_close(log_partition(wide), log_partition(edges))


# Scores that are none.

Search = Callable[[Edges], Paths | Tensor]
every_search = pytest.mark.parametrize("search", [
    viterbi, recorded_viterbi, lambda edges: best_paths(edges, 2),
    lambda edges: best_paths(edges, 2, associative=True), log_partition,
    lambda edges: log_partition(edges, associative=True)],
    ids=["kernel", "recorded", "serial", "scan", "log", "log scan"])


@every_search
@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize(("scores", "place"), [
    ("first", (1, 2)), ("inner", (1, 0, 2, 1)), ("inner", (1, 2, 0, 0)), ("end", (1, 0, 0)), ("end", (1, 3, 2))])
def test_scores_that_are_not_finite(search: Search, scores: str, place: tuple[int, ...], value: float) -> None:
    edges = chains(3, 4, 3)
    getattr(edges, scores)[place] = value
    with pytest.raises(PipelineError, match=r"not finite \(NaN or \+inf in sentence 2 of the batch\).* use float32"):
        search(edges)


@every_search
@pytest.mark.parametrize("value", [NAN, INF])
def test_a_chain_of_one_position_that_is_not_finite(search: Search, value: float) -> None:
    edges = chains(2, 1, 3)
    for broken in (edges._replace(first=edges.first.clone()), edges._replace(end=edges.end.clone())):
        (broken.first if broken.end is edges.end else broken.end)[1].fill_(value)
        with pytest.raises(PipelineError, match="in sentence 2 of the batch"):
            search(broken)


@every_search
def test_what_cannot_be_reached_may_be_anything(search: Search) -> None:
    edges = chains(2, 4, 3)
    edges.first[:, 1] = edges.inner[:, 0, :, 2] = edges.end[:, 3] = -INF
    expected = search(edges)
    edges.inner[:, 0, 1, 0] = edges.end[:, 0, 1] = NAN  # from a state in which no path starts
    edges.inner[:, 1, 2] = INF  # from a state into which no path steps
    edges.inner[:, 2] = NAN  # to a position after which no path stops
    for found, before in zip(search(edges), expected, strict=True):
        assert torch.equal(found, before)


def test_chains_without_a_path() -> None:
    edges = chains(3, 4, 3)
    edges.first[0], edges.inner[1, 0], edges.end[1, 0], edges.end[2] = -INF, -INF, -INF, -INF
    for paths in (search(edges) for search in SEARCHES):
        assert paths.scores.eq(-INF).all() and not paths.lengths.any() and not paths.states.any()
    assert log_partition(edges).eq(-INF).all()


def test_an_empty_batch() -> None:
    edges = chains(0, 3, 2)
    for search in (viterbi, recorded_viterbi, lambda edges: best_paths(edges, 1)):
        assert search(edges).states.shape == (0, 1, 3)
    assert best_paths(edges, 4, associative=True).scores.shape == (0, 4)
    assert log_partition(edges).shape == (0,)
