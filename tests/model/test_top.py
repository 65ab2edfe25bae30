"""The quick kernels for the best words agree with torch's own."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model.top import best, best_k, best_k_and_end, lowest, score_best

# Few distinct values, so that ties are common; and words that cannot be.
values = st.sampled_from([-torch.inf, -2.0, -1.0, 0.0, 0.5, 3.0])


@st.composite
def matrices(draw: st.DrawFn) -> torch.Tensor:
    """(R, V) logits; V often larger than several blocks of 64 and seldom a multiple of them."""
    rows, columns = draw(st.integers(1, 3)), draw(st.one_of(st.integers(1, 80), st.integers(100, 400), st.just(640)))
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))  # the last one by torch's own kernels
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    if draw(st.booleans()):
        return torch.randn(rows, columns, generator=generator, dtype=dtype)
    few = torch.tensor(draw(st.lists(values, min_size=1, max_size=4)), dtype=dtype)
    return few[torch.randint(len(few), (rows, columns), generator=generator)]


@given(matrices(), st.data())
def test_best_k_are_those_of_topk(logits: torch.Tensor, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, min(40, logits.shape[1])))
    scores, ids = best_k(logits.clone(), k)
    assert torch.equal(scores, logits.topk(k).values)
    assert torch.equal(logits.gather(1, ids), scores)
    possible = [[word for word, score in zip(*row, strict=True) if score > -torch.inf]
                for row in zip(ids.tolist(), scores.tolist(), strict=True)]
    assert all(len(set(row)) == len(row) for row in possible)


@given(matrices(), st.data())
def test_the_end_stands_after_the_best_words(logits: torch.Tensor, data: st.DataObject) -> None:
    V = logits.shape[1]
    end, k = data.draw(st.integers(0, V - 1)), data.draw(st.integers(0, min(40, V - 1)))
    scores, ids = best_k_and_end(logits.clone(), k, end)
    assert ids[:, k].tolist() == [end] * len(logits) and torch.equal(scores[:, k], logits[:, end])
    others = logits.clone()
    others[:, end] = -torch.inf
    assert torch.equal(scores[:, :k], others.topk(k).values)
    assert torch.equal(others.gather(1, ids[:, :k]), scores[:, :k])


@given(matrices())
def test_best_is_the_lowest_of_the_highest(logits: torch.Tensor) -> None:
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert best(logits).tolist() == expected
    assert best(logits.unsqueeze(1)).tolist() == [[word] for word in expected]  # any leading dimensions


def test_the_best_words_of_a_tail_and_of_one_block() -> None:
    logits = torch.zeros(3, 64 * 9 + 5)
    logits[0, -5:] = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])  # all in the tail that fills no block
    logits[1, 130:134] = torch.tensor([1.0, 2.0, 3.0, 4.0])  # all in one block
    logits[2, [0, 64, 300, 580]] = torch.tensor([4.0, 3.0, 2.0, 1.0])
    assert best_k(logits, 4)[1].tolist() == [[576, 577, 578, 579], [133, 132, 131, 130], [0, 64, 300, 580]]


@given(matrices())
def test_the_best_word_and_its_score(logits: torch.Tensor) -> None:
    words, scores = score_best(logits)
    assert torch.equal(words, best(logits))
    expected = logits.double().log_softmax(1).gather(1, words.unsqueeze(1)).squeeze(1)
    exact = logits.dtype != torch.bfloat16
    torch.testing.assert_close(scores.double(), expected, rtol=1e-6 if exact else 0.02, atol=1e-6 if exact else 0.02,
                               equal_nan=True)


@given(st.lists(st.lists(st.sampled_from([-2.0, -1.0, 0.0, math.inf]), min_size=5, max_size=5), min_size=1, max_size=4),
       st.data())
def test_the_lowest_are_those_that_sort_first(values: list[list[float]], data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 5), min_size=len(values), max_size=len(values)))
    marked = lowest(torch.tensor(values), torch.tensor(counts))
    for row, count, found in zip(values, counts, marked.tolist(), strict=True):
        assert {place for place in range(5) if found[place]} == set(sorted(range(5), key=row.__getitem__)[:count])
