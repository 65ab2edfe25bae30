"""Which token became right in which iteration of Parallel Jacobi decoding, and after which others?

DDGviz, the decoding dependency graph of Santilli et al. (2023, section 3.5 and "Visualizing Parallel Decoding", Figure
4). Their Algorithm 1 feeds the model its last iterate, reads the next one, and stops when nothing changes; it starts
from padding. Here it is run as it is written, every iteration on every position: `pipeline.decoding.jacobi` is the fast
one.

A token *settles* in the first iteration from which on it is the final one, which is greedy search's (Proposition 1). A
token that is right, then wrong, and right again, settles when it is right again.

Token i *may depend on* token j where j < i and j settled in an earlier iteration. Of every other j < i the model has
shown that it does not need it: in the iteration before j settled, j was wrong, and i was right in the next (the paper's
p(y_6 | y_1:4, x), where y_5 settles with y_6). "Earlier in the sentence, and earlier in time" is a strict partial
order. The *graph* is its transitive reduction, which is unique: the fewest edges by whose paths every token reaches
exactly those that it may depend on. There is an edge j → i where no token between the two settles between them. The
paper also omits redundant edges ("omitting redundant edges on non-parallel tokens").

Every token that has not settled in the first iteration has an edge from one of the previous iteration: the leftmost
token that changed in an iteration has nothing before it that still changes, so it has settled there; and a token
changes only after one to the left of it has.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model, is_ordered
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.model.top import score_best
from pipeline.vocabulary import PAD


class Cell(NamedTuple):
    """What an iteration predicts at a position."""

    token: int
    probability: float
    """That of the token after the previous iterate."""
    right: bool
    """Whether it is the final token of its position."""


class Edge(NamedTuple):
    """Two positions, from 0: the second one may depend on the first."""

    before: int
    after: int


@dataclass(frozen=True)
class Grid:
    """The iterates of one sentence, up to the one that equals greedy search's output."""

    rows: list[list[Cell]]
    """The m cells of each iteration, in the order of generation. The paper's loop takes one more iteration where there
    are fewer than m, to see that nothing changes."""
    ended: bool
    """Whether the last position has the end symbol; false where the length limit came first."""

    @property
    def iterations(self) -> int:
        """Iterations until all tokens are right; at most m."""
        return len(self.rows)

    @property
    def tokens(self) -> list[int]:
        """The m final tokens, the end symbol among them."""
        return [cell.token for cell in self.rows[-1]]

    @cached_property
    def settled(self) -> list[int]:
        """The iteration, from 1, in which each position settled."""
        wrong = [[number for number, cell in enumerate(column, 1) if not cell.right]
                 for column in zip(*self.rows, strict=True)]
        return [max(numbers, default=0) + 1 for numbers in wrong]

    @property
    def together(self) -> list[bool]:
        """For each position, whether another one settled in the same iteration."""
        return [self.settled.count(number) > 1 for number in self.settled]


@torch.inference_mode()
def jacobi_grid(model: Model, source: Tensor, limit: LengthLimit) -> Grid:
    """Run Parallel Jacobi decoding (Algorithm 1) on one sentence.

    The paper assumes that greedy search's length m is known. Here there is room for all that the limit allows, and
    tokens after an end symbol are ignored, both in the comparison of iterates and in the grid.

    Args:
        model: an ordered model of one word per step.
        source: (1, S) ids.
        limit: the longest output.

    Raises:
        PipelineError: the model is of another kind, or generates several words per step.
    """
    if not is_ordered(model):
        raise PipelineError(f"dependency graph: a {model.kind} model has no greedy search to be iterated; choose an "
                            "ordered family")
    if model.order.width != 1:
        raise PipelineError(f"dependency graph: the model generates in the order {model.order.name}, "
                            f"{model.order.width} words per step; choose one of one word per step")
    room = int(limit.steps(source, model.order))
    model = open_engine(model)
    state = model.start(model.encode(source), capacity=room)
    start = source.new_tensor([model.order.starts])
    iterate, iterates = source.new_full((1, room), PAD), []
    for _ in range(room):  # as many as settle everything (Proposition 1)
        logits = model.step(torch.cat((start, iterate[:, :-1]), 1), state)
        state.rewind(0)
        last, (iterate, scores) = iterate, score_best(logits)
        iterates.append((iterate[0].tolist(), scores[0].exp().tolist()))
        length = _length(iterates[-1][0], model.order.end)
        if torch.equal(iterate[:, :length], last[:, :length]):
            break
    final = iterates[-1][0][:length]
    rows = [[Cell(token, probability, token == wanted)
             for token, probability, wanted in zip(*predicted, final, strict=False)] for predicted in iterates]
    grid = Grid(rows, final[-1] == model.order.end)
    return Grid(rows[:max(grid.settled)], grid.ended)


def dependencies(settled: list[int]) -> list[Edge]:
    """The edges of the graph, sorted by the position that they lead to.

    The second token and the third depend on the first, and the fourth on both; that it depends on the first is implied.

    >>> [tuple(edge) for edge in dependencies([1, 2, 2, 3])]
    [(0, 1), (0, 2), (1, 3), (2, 3)]

    Args:
        settled: the iteration in which each position settled.
    """
    edges: list[Edge] = []
    for after, time in enumerate(settled):
        found: list[Edge] = []
        latest = 0  # iteration in which a position between the two settled, of those that settled before `after`
        for before in reversed(range(after)):
            if latest <= settled[before] < time:
                found.append(Edge(before, after))
                latest = settled[before]
        edges += reversed(found)
    return edges


def _length(tokens: list[int], end: int) -> int:
    """Tokens up to the first end symbol, including it; all where there is none."""
    return tokens.index(end) + 1 if end in tokens else len(tokens)
