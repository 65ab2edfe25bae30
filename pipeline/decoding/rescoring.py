"""Scores that a search did not need, computed on request."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pipeline.decoding.prefix import Ints
from pipeline.engine import sentence


def scored_later(model: Any, source: Tensor, steps: Ints) -> Callable[[], Tensor]:
    """A function that returns the log-probability (1, 1) of a sentence that was searched in one compiled call.

    The function runs the model once more over ids. The state of the search would keep keys and values in memory for as
    long as the hypotheses live.

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
        assert score is not None  # it was searched in one compiled call
        return torch.tensor([[score]], dtype=torch.float64)
    return scored
