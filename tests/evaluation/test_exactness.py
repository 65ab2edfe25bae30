"""What differs from greedy search is a certified tie or a bug."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.evaluation.exactness import MARGINS, count_ties
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

SOURCE = torch.tensor([[9, 8, 7, EOS], [7, 12, EOS, PAD], [15, 11, 10, EOS]])
LIMIT = LengthLimit(1.0, 4, 40)


@pytest.fixture
def twins(tiny: Callable[..., Transformer]) -> tuple[Transformer, Hypotheses, int, int]:
    """A model for which two words are equally probable, what it finds, and the two words: one of them is found."""
    model = tiny(seed=5)
    found = greedy.search(model, SOURCE, LIMIT)
    word = int(found.tokens[0, 0, 1])
    twin = next(other for other in range(19, 6, -1) if other not in found.tokens)
    with torch.no_grad():
        model.projection.weight[twin] = model.projection.weight[word]
        model.target_embedding.weight[twin] = model.target_embedding.weight[word]
    return model, greedy.search(model, SOURCE, LIMIT), min(word, twin), max(word, twin)


def changed(found: Hypotheses, row: int, place: int, word: int) -> Hypotheses:
    tokens = found.tokens.clone()
    tokens[row, 0, place] = word
    return replace(found, tokens=tokens)


def test_the_same_text_has_no_ties(tiny: Callable[..., Transformer]) -> None:
    model = tiny()
    found = greedy.search(model, SOURCE, LIMIT)
    assert count_ties(model, SOURCE, found, found, "a decoder") == 0


def test_padding_behind_a_text_is_no_difference(tiny: Callable[..., Transformer]) -> None:
    model = tiny()
    found = greedy.search(model, SOURCE, LIMIT)
    wider = replace(found, tokens=torch.nn.functional.pad(found.tokens, (0, 5), value=PAD))
    assert count_ties(model, SOURCE, found, wider, "a decoder") == 0


def test_equally_probable_words_are_a_tie(twins: tuple[Transformer, Hypotheses, int, int]) -> None:
    model, found, first, second = twins
    assert first in found.tokens[0, 0].tolist()  # of equals, the lowest
    place = found.tokens[0, 0].tolist().index(first)
    assert count_ties(model, SOURCE, found, changed(found, 0, place, second), "a decoder") == 1


def test_what_follows_a_tie_is_not_judged(twins: tuple[Transformer, Hypotheses, int, int]) -> None:
    model, found, first, second = twins
    place = found.tokens[0, 0].tolist().index(first)
    other = changed(found, 0, place, second)
    for later in range(place + 1, int(found.lengths[0, 0])):
        other = changed(other, 0, later, 17)
    assert count_ties(model, SOURCE, found, other, "a decoder") == 1


@pytest.mark.parametrize("row", [0, 1, 2])
def test_any_other_word_is_a_bug(tiny: Callable[..., Transformer], row: int) -> None:
    model = tiny(seed=5)
    found = greedy.search(model, SOURCE, LIMIT)
    assert int(found.lengths.min()) > 1
    other = changed(found, row, 0, 7 if int(found.tokens[row, 0, 0]) != 7 else 8)
    with pytest.raises(PipelineError, match=f"gad: sentence {row + 1} of a batch differs from greedy .* token 1 on"):
        count_ties(model, SOURCE, found, other, "gad")


def test_a_text_that_is_cut_where_the_other_goes_on_is_a_bug(tiny: Callable[..., Transformer]) -> None:
    model = tiny(seed=5)
    found = greedy.search(model, SOURCE, LIMIT)
    cut = replace(found, lengths=found.lengths.clamp(max=1), ended=torch.zeros_like(found.ended),
                  tokens=found.tokens.masked_fill(torch.arange(found.tokens.shape[2]) > 0, PAD))
    with pytest.raises(PipelineError, match="this is a bug"):
        count_ties(model, SOURCE, found, cut, "gad")


def test_an_end_in_place_of_a_word_is_judged_like_a_word(tiny: Callable[..., Transformer]) -> None:
    model = tiny(seed=5)
    found = greedy.search(model, SOURCE, LIMIT)
    ended = replace(found, lengths=torch.ones_like(found.lengths), ended=torch.ones_like(found.ended),
                    tokens=found.tokens.masked_fill(torch.arange(found.tokens.shape[2]) > 0, PAD))
    with pytest.raises(PipelineError, match="from token 2 on"):
        count_ties(model, SOURCE, found, ended, "gad")


def test_a_margin_is_wider_where_rounding_is_coarser() -> None:
    spacing: dict[torch.dtype, float] = {dtype: torch.finfo(dtype).eps for dtype in MARGINS}
    assert sorted(MARGINS, key=lambda dtype: MARGINS[dtype]) == sorted(spacing, key=lambda dtype: spacing[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_call_of_many_tokens_is_many_calls_of_one(tiny: Callable[..., Transformer], dtype: torch.dtype) -> None:
    """On the machine's own kernels: whatever draft and verify finds in these types differs by ties at most."""
    from pipeline.decoding import iad

    model = tiny(dtype=dtype, seed=5)
    source: Tensor = torch.randint(7, 20, (12, 9), generator=torch.Generator().manual_seed(3))
    source[:, -1] = EOS
    expected, found = greedy.search(model, source, LIMIT), iad.search(model, source, LIMIT)
    count_ties(model, source, expected, found, "iad")  # which raises for any other difference
