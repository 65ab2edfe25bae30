"""Scores that a search did not need, computed on request."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pipeline.engine import sentence
from pipeline.model.state import Ints
from pipeline.vocabulary import PAD


def scored_later(model: Any, source: Tensor, steps: Sequence[Ints]) -> Callable[[], Tensor]:
    """A function that returns the log-probabilities (B, 1) of sentences that were searched in a compiled call.

    The function runs the model once more over ids. The state of the search would keep keys and values in memory for as
    long as the hypotheses live. The model lives as long; that of a shortlist has a projection of its own.

    Args:
        model: that was searched.
        source: (B, S) ids, padded with PAD on the right.
        steps: of each sentence (T, z), the steps taken, end symbols included.
    """
    source, steps = source.clone(), [each.copy() for each in steps]  # not the batch and the buffer they are parts of

    def scored() -> Tensor:
        with torch.inference_mode():  # a decorator here would cost every sentence ten microseconds
            return torch.tensor([[_score(model, row[row != PAD].unsqueeze(0), taken)]
                                 for row, taken in zip(source, steps, strict=True)], dtype=torch.float64)
    return scored


def _score(model: Any, source: Tensor, steps: Ints) -> float:
    """The log-probability of one sentence (1, S)."""
    state = model.start(model.encode(source), capacity=steps.size)
    score = sentence.score(model, state, steps)
    if score is None:  # another engine is in use than in the search
        return _score_by_step(model, state, steps)
    return score


def _score_by_step(model: Any, state: Any, steps: Ints) -> float:
    """`sentence.score` by a step of the model over all tokens."""
    slots = torch.from_numpy(steps).view(1, -1)
    tokens = torch.cat((torch.tensor([model.order.starts]), slots), 1)[:, :-model.order.width]
    log_probabilities = model.step(tokens, state).log_softmax(2)
    return float(log_probabilities.gather(2, slots.unsqueeze(2)).sum(dtype=torch.float64))
