"""The grid of Jacobi's iterates is that of the method by hand, and the graph the fewest edges that say who may wait."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from masked import masked
from scripted import Row, Scripted, logits, random_script
from sentences import sources
from torch import Tensor

from pipeline.decoding import greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.jacobi.grid import Cell, Edge, Grid, dependencies, jacobi_grid
from pipeline.model.orders import make_order
from pipeline.model.settings import OrderSettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.0, extra=4, longest=47)
LEFT_TO_RIGHT = make_order(OrderSettings("left_to_right"))
SETTLED = st.lists(st.integers(1, 6), max_size=9)


def greedy_tokens(model: Any, source: Tensor) -> list[int]:
    """Greedy search's output in the order of generation, with its end symbol."""
    found = greedy.search(model, source, LIMIT)
    length = int(found.lengths[0, 0])
    words = model.order.arrange(found.tokens[0], found.lengths[0])[0, :length]
    return [*words.tolist(), *[EOS] * bool(found.ended[0, 0])]


@torch.no_grad()
def by_hand(model: Any, source: Tensor, final: list[int]) -> list[list[tuple[int, float]]]:
    """Tokens and probabilities of Algorithm 1, m known, one position after the other with nothing cached."""
    memory, iterate, rows = model.encode(source), [PAD] * len(final), []
    while iterate != final:
        row = []
        for position in range(len(final)):
            tokens = torch.tensor([[*model.order.starts, *iterate[:position]]])
            probabilities = model.step(tokens, model.start(memory))[0, -1].softmax(0)
            row.append((int(probabilities.argmax()), float(probabilities.max())))
        iterate = [token for token, _ in row]
        rows.append(row)
    return rows


def assert_is_the_methods(model: Any, source: Tensor) -> None:
    grid, final = jacobi_grid(model, source, LIMIT), greedy_tokens(model, source)
    expected = by_hand(model, source, final)
    assert grid.tokens == final and grid.ended == (final[-1] == EOS)
    assert grid.iterations == len(expected) <= len(final)  # Proposition 1
    for row, wanted in zip(grid.rows, expected, strict=True):
        assert [cell.token for cell in row] == [token for token, _ in wanted]
        assert [cell.probability for cell in row] == pytest.approx([one for _, one in wanted], abs=1e-9)
        assert [cell.right for cell in row] == [token == last for (token, _), last in zip(wanted, final, strict=True)]
    for position, first in enumerate(grid.settled):
        column = [row[position].right for row in grid.rows]
        assert all(column[first - 1:]) and not (first > 1 and column[first - 2])
        assert first <= position + 1
    # What has not settled at once has an edge from the iteration before.
    waits = {(grid.settled[edge.before], edge.after) for edge in dependencies(grid.settled)}
    assert all((first - 1, position) in waits for position, first in enumerate(grid.settled) if first > 1)


@given(st.integers(1, 6), st.integers(0, 9), st.sampled_from(["left_to_right", "right_to_left"]))
@settings(max_examples=12)
def test_the_iterates_of_a_network(tiny: Tiny, length: int, seed: int, order: str) -> None:
    assert_is_the_methods(tiny(order, seed=seed), sources(length))


@given(st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=25)
def test_the_iterates_of_any_model(words: int, seed: int) -> None:
    model = Scripted(LEFT_TO_RIGHT, random_script(LEFT_TO_RIGHT, words, seed, 12))
    assert_is_the_methods(model, torch.tensor([[7, 8, EOS]]))


def test_a_case_by_hand() -> None:
    """The second token needs the first; the third needs nothing; the fourth is right once by chance, and then waits."""
    def script(source: Row, prefix: Row) -> Tensor:
        place = len(prefix)
        tokens = {0: 7, 1: 8 if prefix[:1] == (7,) else 9, 2: 10,
                3: 11 if place == 3 and (prefix[1] == PAD or prefix[:3] == (7, 8, 10)) else 6}
        return logits({tokens.get(place, EOS): 0.0, 5: -1.0})

    grid = jacobi_grid(Scripted(LEFT_TO_RIGHT, script), torch.tensor([[7, 8, EOS]]), LIMIT)
    assert [[cell.token for cell in row] for row in grid.rows] == [[7, 9, 10, 11, EOS], [7, 8, 10, 6, EOS],
                                                                   [7, 8, 10, 11, EOS]]
    assert grid.settled == [1, 2, 1, 3, 1]
    assert grid.rows[0][3] == Cell(11, pytest.approx(1 / (1 + torch.e**-1)), True)
    assert grid.together == [True, False, True, False, True]
    assert dependencies(grid.settled) == [Edge(0, 1), Edge(1, 3), Edge(2, 3)]


def test_a_translation_that_the_limit_cuts() -> None:
    model = Scripted(LEFT_TO_RIGHT, lambda source, prefix: logits({7 + len(prefix) % 3: 0.0}))
    grid = jacobi_grid(model, torch.tensor([[7, EOS]]), LengthLimit(1.0, 2, 40))
    assert (grid.tokens, grid.ended, grid.iterations) == ([7, 8, 9, 7, 8], False, 1)
    # The second iteration sees that nothing changes.
    assert len(model.fed) == 2


def test_the_papers_example() -> None:
    """Figure 4: the fifth and the sixth token settle together after the first four."""
    assert dependencies([1, 2, 3, 4, 5, 5]) == [Edge(0, 1), Edge(1, 2), Edge(2, 3), Edge(3, 4), Edge(3, 5)]
    assert dependencies([1, 2, 3]) == [Edge(0, 1), Edge(1, 2)]
    assert dependencies([1, 1, 1]) == dependencies([]) == []


@given(SETTLED)
def test_the_graph_is_the_transitive_reduction(settled: list[int]) -> None:
    def reaches(edges: set[Edge]) -> set[Edge]:
        """The transitive closure."""
        closed = set(edges)
        while more := {Edge(a, d) for a, b in closed for c, d in closed if b == c} - closed:
            closed |= more
        return closed

    edges = dependencies(settled)
    assert len(set(edges)) == len(edges)
    relation = {Edge(before, after) for before, after in combinations(range(len(settled)), 2)
                if settled[before] < settled[after]}
    assert reaches(set(edges)) == relation
    assert all(reaches(set(edges) - {edge}) != relation for edge in edges)


def test_what_a_token_need_not_wait_for_was_wrong_when_it_was_right(tiny: Tiny) -> None:
    seen = 0
    for seed in range(8):
        grid: Grid = jacobi_grid(tiny(seed=seed), sources(9), LIMIT)
        for before, after in combinations(range(len(grid.tokens)), 2):
            first = grid.settled[before]
            if grid.settled[after] <= first and first > 1:
                assert not grid.rows[first - 2][before].right and grid.rows[first - 1][after].right
                seen += 1
    assert seen


def test_models_that_cannot_be_iterated(tiny: Tiny) -> None:
    with pytest.raises(PipelineError, match="a masked model has no greedy search"):
        jacobi_grid(masked(), sources(4), LIMIT)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="order interleaved, 2 words per step; choose one of one word per step"):
        jacobi_grid(tiny("interleaved"), sources(4), LIMIT)
