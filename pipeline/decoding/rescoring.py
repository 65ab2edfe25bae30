"""Scores that a search did not need, computed when somebody asks for them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pipeline.decoding.prefix import Ints
from pipeline.engine import sentence


def scored_later(model: Any, source: Tensor, steps: Ints) -> Callable[[], Tensor]:
    """What computes the score of a sentence that was searched in one compiled call.

    It holds ids alone, and reads them once more: with the state of the search, its keys and values would stay in memory
    for as long as the hypotheses do.

    Args:
        model: that was searched.
        source: (1, S) ids.
        steps: (T, z), the steps taken, end symbols included.

    Returns:
        A function that returns the summed log-probability, (1, 1).
    """
    source, steps = source.clone(), steps.copy()  # not the batch and the room that they are parts of

    @torch.inference_mode()
    def scored() -> Tensor:
        state = model.start(model.encode(source), capacity=steps.size)
        score = sentence.score(model, state, steps)
        assert score is not None  # it was searched in one compiled call
        return torch.tensor([[score]], dtype=torch.float64)
    return scored
