"""Scores that a search did not need, computed on request."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pipeline.engine import sentence
from pipeline.model.state import Ints


def scored_later(model: Any, source: Tensor, steps: Ints) -> Callable[[], Tensor]:
    """A function that returns the log-probability (1, 1) of a sentence that was searched in one compiled call.

    The function runs the model once more over ids. The state of the search would keep keys and values in memory for as
    long as the hypotheses live. The model lives as long; that of a shortlist has a projection of its own.

    Args:
        model: that was searched.
        source: (1, S) ids.
        steps: (T, z), the steps taken, end symbols included.
    """
    source, steps = source.clone(), steps.copy()  # do not keep the batch and the buffer that they are parts of

    def scored() -> Tensor:
        with torch.inference_mode():  # a decorator here would cost every sentence ten microseconds
            state = model.start(model.encode(source), capacity=steps.size)
            score = sentence.score(model, state, steps)
            if score is None:  # another engine is in use than in the search
                score = _score(model, state, steps)
        return torch.tensor([[score]], dtype=torch.float64)
    return scored


def _score(model: Any, state: Any, steps: Ints) -> float:
    """`sentence.score` by a step of the model over all tokens."""
    slots = torch.from_numpy(steps).view(1, -1)
    tokens = torch.cat((torch.tensor([model.order.starts]), slots), 1)[:, :-model.order.width]
    log_probabilities = model.step(tokens, state).log_softmax(2)
    return float(log_probabilities.gather(2, slots.unsqueeze(2)).sum(dtype=torch.float64))
