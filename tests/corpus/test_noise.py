"""Synthetic errors: of the kinds and as frequent as asked for, repeatable anywhere, and never anything but one line."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.lines import normalise
from pipeline.sources.noise import Frequencies, WordList, corrupt
from pipeline.sources.settings import NoiseSettings

SENTENCES = [
    "The old ferry leaves at dawn, whatever the weather.", "Nobody saw the lantern; everybody heard the bell!",
    "He said (twice) that the harbour's gate was shut.", "Seven gulls, one herring - and no peace at all.",
    "When tide and wind agree, even a small boat is quick.", "Is there a map? There was one, long ago."]
WORDLIST = WordList(SENTENCES)
LONG = "the ferry and the lantern and the harbour and the herring and the weather and the bell"

texts = st.text(st.sampled_from("aBc é'’-_,.!9 \u0301ß"), max_size=40).map(normalise)
shares = st.floats(0, 1)


def only(**rates: float) -> NoiseSettings:
    return NoiseSettings(**{"words": 0.0, "characters": 0.0, "marks": 0.0} | rates)


def versions(sentence: str, rates: NoiseSettings, count: int = 400) -> list[str]:
    return [corrupt(sentence, WORDLIST, rates, Random(seed)) for seed in range(count)]


def one_edit_apart(left: str, right: str) -> bool:
    """Whether a letter put in, left out or replaced, or two neighbours swapped, make one of the other; or nothing."""
    if len(left) > len(right):
        left, right = right, left
    if len(left) < len(right):
        return any(right[:at] + right[at + 1:] == left for at in range(len(right))) and len(left) + 1 == len(right)
    different = [at for at in range(len(left)) if left[at] != right[at]]
    swapped = len(different) == 2 and left[different[0]:different[1] + 1] == right[different[0]:different[1] + 1][::-1]
    return len(different) < 2 or (swapped and different[1] == different[0] + 1)


@settings(max_examples=200, deadline=None)
@given(texts, st.lists(texts, max_size=4), shares, shares, shares, st.integers(0, 9))
def test_any_sentence_becomes_one_clean_line(sentence: str, corpus: list[str], words: float, characters: float,
                                             marks: float, seed: int) -> None:
    rates = NoiseSettings(words=words, characters=characters, marks=marks)
    wrong = corrupt(sentence, WordList(corpus), rates, Random(seed))
    assert wrong == " ".join(wrong.split())
    assert bool(wrong) == bool(sentence)
    assert wrong == corrupt(sentence, WordList(corpus[::-1]), rates, Random(seed))


@settings(max_examples=100, deadline=None)
@given(texts)
def test_without_shares_nothing_changes(sentence: str) -> None:
    assert corrupt(sentence, WORDLIST, only(), Random(1)) == sentence


def test_the_same_seed_gives_the_same_errors_on_every_machine() -> None:
    # Golden: another result would silently change every corpus made from the same params.yaml.
    rates = NoiseSettings(words=0.3, characters=0.2, marks=0.5)
    assert [corrupt(sentence, WORDLIST, rates, Random(f"7 {index} 0")) for index, sentence in enumerate(SENTENCES)] == [
        "the harbour's frery nobody dawn at. whatever teh weather.",
        "Nobody saw the lantern everybody heard the bell!",
        "He said (twice) that the was harbour's gate shut was",
        "Seven gullls, one peace herrine no peace a asl.",
        "Agree tide and wind agree a Even small bota is bell qiick.",
        "Is there. a leaves? There was one, long ago."]


def test_misspelt_words_are_one_edit_from_what_they_were() -> None:
    right = LONG.split()
    wrong = [version.split() for version in versions(LONG, only(characters=0.5))]
    assert all(len(version) == len(right) for version in wrong)
    pairs = [pair for version in wrong for pair in zip(right, version, strict=True)]
    assert all(one_edit_apart(*pair) for pair in pairs)
    assert {len(after) - len(before) for before, after in pairs} == {-1, 0, 1}


def test_wrong_marks_leave_the_words_alone() -> None:
    sentence = SENTENCES[1]
    wrong = versions(sentence, only(marks=0.5))
    words = ["".join(character for character in version if character.isalnum()) for version in [sentence, *wrong]]
    assert len(set(words)) == 1
    assert any(";" not in version for version in wrong)
    assert any("," in version or "?" in version for version in wrong)


@pytest.mark.parametrize("sentence", ["मैं हूँ और पढ़ता हूँ", "می\u200cخوانم و می\u200cروم", "ที่นี่"])
def test_signs_of_a_script_and_joiners_are_no_marks(sentence: str) -> None:
    wordlist = WordList([sentence])
    assert (set(wordlist.words.strings), wordlist.marks.strings) == (set(sentence.split()), [])
    assert corrupt(sentence, wordlist, only(marks=1.0), Random(1)) == sentence


def test_a_stress_is_of_its_word_and_an_emoji_s_selector_a_mark() -> None:
    # Golden like the errors below: corpora with a few of them would otherwise be other ones.
    wordlist = WordList(["за\u0301мок ❤\ufe0f 1\ufe0f\u20e3"])
    assert (sorted(wordlist.words.strings), sorted(wordlist.marks.strings)) == (
        ["1", "за\u0301мок"], ["\u20e3", "❤", "\ufe0f"])


def test_all_kinds_of_wrong_words_occur() -> None:
    right = LONG.split()
    wrong = [version.split() for version in versions(LONG, only(words=0.1))]
    of_one_change = [version for version in wrong if version != right]
    assert any(len(version) < len(right) for version in of_one_change)
    assert any(len(version) > len(right) for version in of_one_change)
    assert any(sorted(version) == sorted(right) for version in of_one_change)
    assert any(" ".join(version).lower() == LONG for version in of_one_change)
    assert any(version[0] not in ("the", "The") for version in of_one_change)
    assert any(not "".join(version).isalpha() for version in of_one_change)


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_shares_are_means_and_errors_gather_in_some_sentences(share: float) -> None:
    right, count = LONG.split(), 4000
    wrong = [version.split() for version in versions(LONG, only(characters=share), count)]
    changed = [sum(map(str.__ne__, right, version)) for version in wrong]
    # A letter may be replaced by itself, or swapped with its like: a little less than the share is seen.
    assert 0.8 * share < sum(changed) / (count * len(right)) < 1.1 * share
    # Exponential severity: the share of whole sentences is 1 / (1 + n p), not (1 - p) ** n as for independent words.
    assert changed.count(0) / count == pytest.approx(1 / (1 + len(right) * share), abs=0.07)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=12, unique=True))
def test_neighbours_are_those_of_an_exhaustive_search(words: list[str]) -> None:
    def rests(word: str) -> set[str]:
        return {word} | {word[:at] + word[at + 1:] for at in range(len(word))}

    lexicon = WordList(words)
    for word in ["abca", *words]:
        assert lexicon.neighbours(word.upper()) == sorted(
            other for other in words if other != word and rests(word) & rests(other))
        assert set(lexicon.neighbours(word)) >= {
            other for other in words if other != word and one_edit_apart(word, other)}


def test_strings_are_drawn_as_often_as_counted() -> None:
    counts = Counter({"b": 3, "a": 6, "c": 1})
    frequencies, random = Frequencies(counts), Random(1)
    drawn = Counter(frequencies.draw(random) for _ in range(3000))
    for string, count in counts.items():
        assert drawn[string] / 3000 == pytest.approx(count / 10, abs=0.04)
    assert Frequencies(counts, 2).strings == ["a", "b"]
    assert Frequencies(Counter()).draw(random) == ""
