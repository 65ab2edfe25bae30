"""GLEU against hand counts, a second implementation from the definition, and all draws of references written out."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.metrics.edits import tokenize
from pipeline.evaluation.metrics.gleu import DRAWS, SEED, score_gleu

PHRASE = ("a", "grey", "owl", "sees", "the", "small", "mouse", ".")
OTHERS = ("", "owl", "owl owl", "the the see", "see .")
CHANGES = st.lists(st.tuples(st.integers(0, len(PHRASE) - 1), st.sampled_from(OTHERS)), max_size=3)


def changed(changes: list[tuple[int, str]]) -> str:
    """The phrase with other words in some places: most n-grams are shared, as in a corrector's work."""
    words = list(PHRASE)
    for place, other in changes:
        words[place] = other
    return " ".join(words)


SENTENCES = CHANGES.map(changed)


def occurrences(words: Sequence[str], gram: Sequence[str]) -> int:
    return sum(words[at:at + len(gram)] == gram for at in range(len(words)))


def by_the_definition(hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[str]) -> float:
    """One reference a sentence, n-grams looked for one by one."""
    c, r = (sum(len(tokenize(one)) for one in texts) for texts in (hypotheses, references))
    log_precision = 0.0
    for n in range(1, 5):
        matches = total = 0
        for texts in zip(hypotheses, sources, references, strict=True):
            C, S, R = map(tokenize, texts)
            grams = [C[at:at + n] for at in range(len(C) - n + 1)]
            credit = 0
            for gram in {tuple(gram): gram for gram in grams}.values():
                inside = occurrences(R, gram)
                other = inside or -occurrences(S, gram)
                credit += math.copysign(min(occurrences(C, gram), abs(other)), other)
            matches, total = matches + max(0, credit), total + len(grams)
        if not matches:
            return 0
        log_precision += math.log(matches / total) / 4
    return 100 * math.exp(min(0, 1 - r / c) + log_precision)


def test_an_error_that_was_kept_costs_more_than_a_new_one() -> None:
    # Of a b c d e only e is wrong. New: 4/5, 3/4, 2/3, 1/2. Kept: 3/5, 2/4, 1/3, and no match of order 4.
    source, reference = ["a b c d x"], [["a b c d f"]]
    assert score_gleu(["a b c d e"], source, reference).gleu == pytest.approx(100 * 0.2**0.25)
    assert score_gleu(["a b c d x"], source, reference).gleu == 0
    # One word longer, so that order 4 has matches: kept 4/6, 3/5, 2/4, 1/3.
    source, reference = ["o a b c d x"], [["o a b c d f"]]
    assert score_gleu(["o a b c d x"], source, reference).gleu == pytest.approx(
        100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3)**0.25)


def test_a_short_hypothesis_pays_for_its_brevity() -> None:
    assert score_gleu(["a b c d"], ["a b c d e"], [["a b c d e"]]).gleu == pytest.approx(100 * math.exp(1 - 5 / 4))
    assert score_gleu(["a b c d e"], ["a b c d e"], [["a b c d"]]).gleu < 100


def test_words_that_the_reference_has_more_rarely_cost_no_more() -> None:
    # As in the authors' scorer: the reference has one `a`, so the second is no match, but cancels none either. What
    # starts with both (a a, a a b, a a b c) it lacks, and that does.
    source = ["a a b c d e"]
    expected = 100 * (5 / 6 * (4 - 1) / 5 * (3 - 1) / 4 * (2 - 1) / 3)**0.25
    assert score_gleu(source, source, [["a b c d e"]]).gleu == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "a", "a b c"])
def test_texts_without_n_grams_of_every_order_score_0(text: str) -> None:
    assert score_gleu([text], ["a b c"], [["a b c"]]).gleu == 0
    assert score_gleu([text], [""], [[""]]).gleu == 0


@given(st.lists(st.tuples(*[SENTENCES] * 3), min_size=1, max_size=5))
def test_one_reference_is_scored_by_the_definition(corpus: list[tuple[str, str, str]]) -> None:
    hypotheses, sources, references = (list(column) for column in zip(*corpus, strict=True))
    expected = by_the_definition(hypotheses, sources, references)
    assert score_gleu(hypotheses, sources, [references]).gleu == pytest.approx(expected, abs=1e-9)


SOURCES = ["the owl see the old barn now", "two mice was hiding in the hay .", "it rained a whole weeks , then froze"]
FIRST = ["the owl sees the old barn now", "two mice were hiding in the hay .", "it rained a whole week , then froze"]
SECOND = ["an owl sees the old barn", "two mice hid in the hay .", "it rained for whole weeks , then it froze"]
HYPOTHESES = ["the owl sees the old barn", "two mice was hiding in hay .", "it rained for a whole week , then it froze"]


def test_several_references_are_drawn() -> None:
    both = [FIRST, SECOND]
    draws = np.random.default_rng(SEED).integers(2, size=(DRAWS, len(SOURCES)))
    written_out = [by_the_definition(HYPOTHESES, SOURCES, [both[pick][n] for n, pick in enumerate(draw)])
                   for draw in draws.tolist()]
    found = score_gleu(HYPOTHESES, SOURCES, both).gleu
    assert found == pytest.approx(np.mean(written_out))
    # The draws stand for all of the 2 ^ 3 choices.
    every = [by_the_definition(HYPOTHESES, SOURCES, [both[pick][n] for n, pick in enumerate(choice)])
             for choice in product((0, 1), repeat=3)]
    error = np.std(every) / math.sqrt(DRAWS)
    assert found == pytest.approx(np.mean(every), abs=4 * error) and error > 0


def test_equal_references_are_one_and_the_score_is_the_same_again() -> None:
    one = score_gleu(HYPOTHESES, SOURCES, [FIRST]).gleu
    assert score_gleu(HYPOTHESES, SOURCES, [FIRST] * 3).gleu == pytest.approx(one)
    assert score_gleu(HYPOTHESES, SOURCES, [FIRST, SECOND]) == score_gleu(HYPOTHESES, SOURCES, [FIRST, SECOND])
    assert score_gleu(FIRST, SOURCES, [FIRST]).gleu == pytest.approx(100)


def test_the_signature_names_the_scorer() -> None:
    assert score_gleu(["a"], ["a"], [["a"]] * 2).gleu_signature == \
        "gleu|refs:2|case:mixed|tok:words|order:4|draws:500|seed:1|version:2"


@pytest.mark.parametrize(("hypotheses", "sources", "references"), [
    (["a"], ["a", "b"], [["a", "b"]]),
    (["a", "b"], ["a"], [["a", "b"]]),
    (["a", "b"], ["a", "b"], [["a", "b"], ["a"]]),
])
def test_unequal_numbers_of_sentences_are_refused(hypotheses: list[str], sources: list[str],
                                                  references: list[list[str]]) -> None:
    with pytest.raises(ValueError):
        score_gleu(hypotheses, sources, references)
