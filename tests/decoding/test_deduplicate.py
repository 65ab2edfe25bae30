"""Removing immediate repeats of n-grams."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from orders import EVERY_ORDER
from scripted import Row, Scripted, logits
from torch import Tensor

from pipeline.decoding.deduplicate import collapse, deduplicated
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.vocabulary import EOS, PAD

A, B, C = 7, 8, 9
texts = st.lists(st.integers(1, 3), max_size=24)
sizes = st.integers(0, 5)


def repeats(words: list[int], longest: int) -> list[tuple[int, int]]:
    """(place, n) of every n-gram that stands twice in a row."""
    return [(at, n) for n in range(1, longest + 1) for at in range(len(words) - 2 * n + 1)
            if words[at:at + n] == words[at + n:at + 2 * n]]


@pytest.mark.parametrize(("words", "longest", "expected"), [
    ("abaaba", 1, "ababa"), ("abaaba", 2, "aba"), ("ababa", 2, "aba"), ("xxx", 1, "x"), ("xxx", 3, "x"), ("", 3, ""),
    ("x", 2, "x"), ("abcabcabc", 3, "abc"), ("abcabcabc", 2, "abcabcabc"), ("aabb", 1, "ab"), ("abba", 3, "aba"),
    ("aabaab", 3, "ab"), ("aabaab", 0, "aabaab")])
def test_by_hand(words: str, longest: int, expected: str) -> None:
    assert collapse(list(map(ord, words)), longest) == list(map(ord, expected))


@pytest.mark.parametrize(("words", "longest", "forced", "expected"), [
    ("xxyyz", 1, 5, "xxyyz"), ("xxyyz", 1, 9, "xxyyz"), ("xxyyy", 1, 4, "xxyy"), ("xxyzz", 1, 2, "xxyz"),
    ("abab", 2, 2, "ab"), ("abab", 2, 3, "abab"), ("ababab", 2, 3, "abab"), ("xxxabab", 3, 3, "xxxab")])
def test_forced_words_are_kept(words: str, longest: int, forced: int, expected: str) -> None:
    assert collapse(list(map(ord, words)), longest, forced) == list(map(ord, expected))


@given(texts, sizes)
def test_no_repeat_is_left_and_nothing_is_moved(words: list[int], longest: int) -> None:
    kept = collapse(words, longest)
    assert not repeats(kept, longest)
    assert collapse(kept, longest) == kept
    rest = iter(words)
    assert all(word in rest for word in kept)  # a subsequence
    if longest:
        assert set(kept) == set(words)


@given(texts, sizes)
def test_nothing_changes_without_repeats(words: list[int], longest: int) -> None:
    assert (collapse(words, longest) == words) is (not repeats(words, longest))


def test_hypotheses_keep_all_but_their_words() -> None:
    tokens = torch.tensor([[[A, A, B, PAD], [A, B, A, B]], [[C, PAD, PAD, PAD], [PAD] * 4]])
    found = Hypotheses(tokens, torch.tensor([[3, 4], [1, 0]]), torch.tensor([[-1.0, -2.0], [-3.0, -torch.inf]]),
                       torch.tensor([[True, False], [True, False]]), torch.tensor([2, 1]))
    given = tokens.clone()
    shorter = deduplicated(found, 2)
    assert shorter.tokens.tolist() == [[[A, B, PAD, PAD], [A, B, PAD, PAD]], [[C, PAD, PAD, PAD], [PAD] * 4]]
    assert shorter.lengths.tolist() == [[2, 2], [1, 0]]
    assert shorter.scores is found.scores and shorter.ended is found.ended and shorter.calls is found.calls
    assert torch.equal(found.tokens, given)  # what was given is as it was


@pytest.mark.parametrize(("deduplicate", "expected"), [(None, "AABAAB"), (0, "AABAAB"), (1, "ABAB"), (2, "AB")])
def test_an_entry_of_decoders_asks_for_it(deduplicate: int | None, expected: str) -> None:
    sentence = [*({"A": A, "B": B}[letter] for letter in "AABAAB"), EOS]

    def script(source: Row, prefix: Row) -> Tensor:
        return logits({sentence[len(prefix)]: 9.0})

    block = {"algorithm": "beam", "beams": 2} | ({} if deduplicate is None else {"deduplicate": deduplicate})
    model = Scripted(EVERY_ORDER["left_to_right"], script)
    found = make_decoder("mine", block, LengthLimit(0.0, 9))(model, torch.tensor([[A, EOS]]))
    assert "".join({A: "A", B: "B", PAD: ""}[word] for word in found.tokens[0, 0].tolist()) == expected
    assert found.lengths.tolist() == [[len(expected)]] and found.calls.tolist() == [7]


@pytest.mark.parametrize("block", [{"algorithm": "greedy"}, {"algorithm": "beam", "beams": 3}])
def test_translations_begin_with_forced_repeats(block: dict[str, object]) -> None:
    model = Scripted(EVERY_ORDER["left_to_right"], lambda source, prefix: logits({C if len(prefix) < 7 else EOS: 9.0}))
    decode = make_decoder("mine", block | {"deduplicate": 1}, LengthLimit(0.0, 9))
    found = decode(model, torch.tensor([[A, EOS]] * 3), [[A, A, B, B, C], [], [A, A]])
    assert found.best_words() == [[A, A, B, B, C], [C], [A, A, C]]


def test_an_entry_that_removes_repeats_places_no_terms() -> None:
    model = Scripted(EVERY_ORDER["left_to_right"], lambda source, prefix: logits({EOS: 9.0}))
    decode = make_decoder("mine", {"algorithm": "beam", "beams": 2, "deduplicate": 1}, LengthLimit(0.0, 9))
    with pytest.raises(PipelineError, match=r"^decoders.mine: deduplicate may remove words of terms; choose"):
        decode(model, torch.tensor([[A, EOS]]), (), [[[A, A, B]]])
