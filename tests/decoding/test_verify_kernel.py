"""Scores of accepted tokens, by compiled code: what `log_softmax` says, at every scale."""

import numpy as np
import pytest
import torch

from pipeline.decoding.verify import _log_probabilities


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("words", [2, 7, 3000])
def test_the_sum_of_log_probabilities(dtype: torch.dtype, scale: float, words: int) -> None:
    torch.manual_seed(3)
    logits = (torch.randn(4, 6, words, dtype=torch.float64) * scale).to(dtype)
    logits[0, 0, 1:] = -torch.inf  # a word that is certain
    tokens, count = logits.argmax(2), np.array([1, 6, 3, 2])
    tokens[1] = torch.arange(6) % words
    inside = torch.arange(6) < torch.from_numpy(count).unsqueeze(1)
    expected = logits.double().log_softmax(2).gather(2, tokens.unsqueeze(2)).squeeze(2).masked_fill(~inside, 0).sum(1)
    found = _log_probabilities(logits, tokens, count)
    torch.testing.assert_close(found, expected, rtol=1e-12 if dtype == torch.float64 else 1e-5, atol=1e-10)
    assert found[0] == 0


def test_reduced_precision_takes_the_plain_way() -> None:
    torch.manual_seed(3)
    logits, tokens = torch.randn(2, 3, 50), torch.randint(50, (2, 3))
    found = _log_probabilities(logits.bfloat16(), tokens, np.array([3, 1]))
    torch.testing.assert_close(found.double(), _log_probabilities(logits, tokens, np.array([3, 1])), rtol=0.05,
                               atol=0.05)
