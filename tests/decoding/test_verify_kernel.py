"""What compiled code makes of a draft is what plain tensor operations make of it."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decoding.prefix import Acceptance, Prefix, Verdict
from pipeline.engine.choice import use_engine
from pipeline.vocabulary import EOS, PAD

ROOM = 12


def extend(logits: torch.Tensor, draft: torch.Tensor, acceptance: Acceptance, remaining: np.ndarray,
           compiled: bool) -> tuple[Prefix, Verdict, np.ndarray]:
    prefix, remaining = Prefix(1, len(draft), ROOM, torch.device("cpu")), remaining.copy()
    with use_engine("compiled" if compiled else "torch"):
        return prefix, prefix.extend(logits, draft, acceptance, remaining, EOS), remaining


@given(rows=st.integers(1, 4), n=st.integers(0, 6), words=st.integers(5, 40), seed=st.integers(0, 999),
       beta=st.integers(1, 4), tau=st.sampled_from([0.0, 0.5, 3.0]), scale=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e4]),
       dtype=st.sampled_from([torch.float32, torch.float64]))
def test_a_draft_is_judged_alike(rows: int, n: int, words: int, seed: int, beta: int, tau: float, scale: float,
                                 dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    logits = (torch.randn(rows, n + 1, words, dtype=torch.float64) * scale).round(decimals=2).to(dtype)  # with ties
    draft = torch.where(torch.rand(rows, n) < 0.7, logits[:, :n].argmax(2), torch.randint(words, (rows, n)))
    draft = draft.masked_fill(torch.arange(n) >= torch.randint(n + 1, (rows, 1)), PAD)
    remaining = torch.randint(1, ROOM, (rows,)).numpy()
    acceptance = Acceptance(beta, tau)
    prefix, found, rest = extend(logits, draft, acceptance, remaining, compiled=True)
    expected_prefix, expected, expected_rest = extend(logits, draft, acceptance, remaining, compiled=False)
    assert torch.equal(found.predicted, expected.predicted)
    assert found.ends.tolist() == expected.ends.tolist() and found.over == expected.over
    assert rest.tolist() == expected_rest.tolist()
    assert prefix.counts.tolist() == expected_prefix.counts.tolist() and prefix.is_uniform == expected_prefix.is_uniform
    for words_found, words_expected, count in zip(prefix.words, expected_prefix.words, prefix.counts, strict=True):
        assert words_found[:count].tolist() == words_expected[:count].tolist()
    torch.testing.assert_close(found.gained, expected.gained.double(), rtol=1e-12 if dtype == torch.float64 else 1e-5,
                               atol=1e-5 if dtype == torch.float32 else 1e-9)


def test_a_word_that_is_certain_costs_nothing() -> None:
    logits = torch.full((1, 1, 7), -torch.inf)
    logits[0, 0, 5] = 3.0
    _, found, _ = extend(logits, torch.zeros(1, 0, dtype=torch.long), Acceptance(), np.array([4]), compiled=True)
    assert found.predicted.item() == 5 and found.gained.item() == 0


def test_reduced_precision_takes_the_plain_way() -> None:
    torch.manual_seed(3)
    logits, draft = torch.randn(2, 3, 50), torch.randint(7, 50, (2, 2))
    _, found, _ = extend(logits.bfloat16(), draft, Acceptance(), np.array([9, 9]), compiled=True)
    _, expected, _ = extend(logits.bfloat16().float(), draft, Acceptance(), np.array([9, 9]), compiled=True)
    torch.testing.assert_close(found.gained.double(), expected.gained, rtol=1e-5, atol=1e-5)
