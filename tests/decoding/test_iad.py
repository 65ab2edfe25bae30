"""Drafts that are copied from the source: against Algorithm 1 of Ge et al. (2022) in plain Python, and by hand."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from orders import EVERY_ORDER
from scripted import Row, Script, Scripted, logits

from pipeline.corpus.padding import pad_sources
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.iad import Settings, search
from pipeline.decoding.limits import LengthLimit
from pipeline.vocabulary import BOS, EOS

A, B, C, D, E = range(7, 12)
ORDER = EVERY_ORDER["left_to_right"]
LIMIT = LengthLimit(0.0, 39)  # forty tokens: far


def writing(texts: dict[Row, Row]) -> Script:
    """Of every source (its end symbol included) the text that is written, whatever was fed."""
    def script(source: Row, prefix: Row) -> torch.Tensor:
        tokens = (*texts[source], *[EOS] * 40)
        return logits({tokens[len(prefix)]: 9.0})
    return script


def algorithm_1(source: Row, predict: Callable[[Row], int], most: int, rules: Settings) -> tuple[Row, list[int]]:
    """The output and how many tokens each pass over the decoder accepts, as the paper writes it down.

    Args:
        source: without an end symbol.
        predict: the verifier's next token after an output.
        most: tokens of an output.
        rules: q + 1 is at least `shortest` and at most `longest`; at most `block` tokens are proposed.
    """
    x, o, accepted = (BOS, *source), (BOS,), []
    while o[-1] != EOS and len(o) <= most:
        guess = x[place + 1:] if (place := unique_match(x, o, rules)) is not None else ()
        guess = guess[:rules.block or None][:most - len(o)]
        before = len(o)
        for expected in (*guess, None):  # the last token has nothing to agree with
            o = (*o, predict(o[1:]))
            if o[-1] != expected or o[-1] == EOS:
                break
        accepted.append(len(o) - before)
    return o[1:], accepted


def unique_match(x: Row, o: Row, rules: Settings) -> int | None:
    """Where in x the last q + 1 tokens of o end, for a q for which they stand there once; None: there is no such q."""
    if o == (BOS,):
        return 0
    for q in range(rules.shortest - 1, min(rules.longest, len(o))):
        suffix = o[len(o) - 1 - q:]
        places = [i for i in range(q, len(x)) if x[i - q:i + 1] == suffix]
        if len(places) == 1:
            return places[0]
    return None


def run(sources: list[Row], texts: list[Row], rules: Settings, limit: LengthLimit = LIMIT) -> tuple[
        Hypotheses, list[list[int]]]:
    """What is found, and the accepted tokens of every pass, a list a sentence."""
    source = pad_sources(sources, 48)
    model = Scripted(ORDER, writing({(*one, EOS): text for one, text in zip(sources, texts, strict=True)}))
    found = search(model, source, limit, rules)
    accepted: list[list[int]] = [[] for _ in sources]
    assert found.verification is not None and found.verification.exact
    for one in found.verification.rounds:
        for sentence, count in zip(one.sentences.tolist(), one.accepted.tolist(), strict=True):
            accepted[sentence].append(count)
    assert [len(counts) for counts in accepted] == found.calls.tolist()
    assert not found.verification.drafter_calls.any()
    return found, accepted


def text_of(found: Hypotheses, row: int = 0) -> Row:
    return tuple(found.tokens[row, 0, :int(found.lengths[row, 0])].tolist())


RULES = st.builds(lambda shortest, more, block: Settings(shortest, shortest + more, block),
                  st.integers(1, 3), st.integers(0, 4), st.integers(0, 6))


@st.composite
def corrections(draw: st.DrawFn) -> tuple[Row, Row]:
    """A sentence of few different tokens, so that suffixes recur, and a version with some spans replaced."""
    words = st.integers(A, draw(st.sampled_from([A, B, C, E])))
    source: list[int] = draw(st.lists(words, max_size=14))
    text = list(source)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text[at:at + draw(st.integers(0, 3))] = draw(st.lists(words, max_size=2))
    return tuple(source), tuple(text)


@given(st.dictionaries(st.integers(0, 10**6), corrections(), min_size=1, max_size=6).map(
    lambda drawn: dict(drawn.values())), RULES)
@settings(max_examples=100)
def test_as_algorithm_1_has_it(pairs: dict[Row, Row], rules: Settings) -> None:
    """The same passes, with the same tokens accepted, alone and in a batch."""
    found, accepted = run(list(pairs), list(pairs.values()), rules)
    for row, (source, text) in enumerate(pairs.items()):
        output, counts = algorithm_1(source, lambda o, text=text: (*text, EOS)[len(o)], 40, rules)
        assert output == (*text, EOS) == (*text_of(found, row), EOS)
        assert accepted[row] == counts


@given(corrections(), RULES, st.integers(1, 8))
@settings(max_examples=60)
def test_algorithm_1_at_its_limit(pair: tuple[Row, Row], rules: Settings, words: int) -> None:
    source, text = pair
    found, (accepted,) = run([source], [text], rules, LengthLimit(0.0, words))
    output, counts = algorithm_1(source, lambda o: (*text, EOS)[len(o)], words + 1, rules)
    assert (*text_of(found), *[EOS] * bool(found.ended)) == output
    assert accepted == counts


BY_HAND: dict[str, tuple[Row, Row, Settings, list[int]]] = {
    "a copy": ((A, B, C), (A, B, C), Settings(), [4]),
    "a word replaced": ((A, B, C, D), (A, E, C, D), Settings(), [2, 1, 2]),
    "a word left out": ((A, B, C, D), (A, C, D), Settings(), [2, 2]),
    "a word put in": ((A, B, C), (A, E, B, C), Settings(), [2, 1, 2]),
    "the end too soon": ((A, B, C), (A, B), Settings(), [3]),
    "more than the source": ((A, B), (A, B, C, D), Settings(), [3, 1, 1]),
    "nothing of the source": ((A, B), (C, D, C), Settings(), [1, 1, 1, 1]),
    "a suffix that is not unique": ((A, B, A, C), (A, A, C), Settings(), [2, 1, 1]),
    "a longer suffix decides": ((A, B, C, A, B, D), (E, C, A, B, D), Settings(), [1, 1, 4]),
    "a longer suffix may not decide": ((A, B, C, A, B, D), (E, A, B, D), Settings(longest=1), [1, 1, 1, 1, 1]),
    "too short a suffix": ((A, B, C, D), (A, E, B, C, D), Settings(shortest=2), [2, 1, 1, 2]),
    "blocks": ((A, B, C, D), (A, B, C, D), Settings(block=2), [3, 2]),
    "one token repeated, copied": ((A, A, A, A), (A, A, A, A), Settings(), [5]),
    "one token repeated": ((A, A, A, A), (A, B, A, A), Settings(), [2, 1, 1, 1]),
    "an empty source": ((), (), Settings(), [1]),
    "an empty source with a text": ((), (A, B), Settings(), [1, 1, 1]),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case: str) -> None:
    source, text, rules, expected = BY_HAND[case]
    found, (accepted,) = run([source], [text], rules)
    assert text_of(found) == text and found.ended.all()
    assert accepted == expected == algorithm_1(source, lambda o: (*text, EOS)[len(o)], 40, rules)[1]


def test_the_whole_source_is_proposed_at_first() -> None:
    """As the match of the start symbol; without the end symbol, and padding is no token."""
    found, _ = run([(A, B, C), (D,)], [(A, E), (D, E)], Settings())
    assert found.verification is not None
    first = found.verification.rounds[0]
    assert first.draft.tolist() == [[A, B, C], [D, 0, 0]]
    assert first.verdict[0, :2].tolist() == [A, E] and first.accepted.tolist() == [2, 2]
