"""Synthetic errors: wrong versions of correct sentences, for pre-training a corrector.

Ge et al. (2022, section 4.1.1) use the synthetic pairs of Grundkiewicz et al. (2019) and Zhang et al. (2019); this
noise is our own. Errors cluster: of ua-gec's training sentences 54 % are correct, and each further wrong token is about
half as frequent as the previous one (24, 11, 6, 3 %). Counts decrease like this if errors are random with a rate that
is exponentially distributed over sentences, which is how they are made here. Words and marks are drawn as often as they
occur on the wrong side: writers put a hyphen in place of a dash, and not the reverse.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path
from random import Random

from pipeline.layout import SYNTHETIC
from pipeline.lines import read_lines
from pipeline.sources.digests import distinct
from pipeline.sources.settings import NoiseSettings
from pipeline.words import WORD

_TOKEN = re.compile(rf"( ?)({WORD}|[^\w\s])")  # the space before it; a word or a single mark
_WORDS = 30_000  # the most frequent ones, which replace others: neighbours in spelling take 2 KB per word


def write_synthetic(settings: NoiseSettings, folder: Path) -> dict[str, int]:
    """Write `folder/synthetic.{source,target}`: wrong versions of the distinct targets of `folder/train.*`.

    Returns:
        The numbers of sentences, of pairs, and of pairs whose sides are equal.
    """
    wordlist = WordList(read_lines(folder / "train.source"))
    number = identical = 0
    with (open(folder / f"{SYNTHETIC}.source", "w", encoding="utf-8", newline="\n") as sources,
          open(folder / f"{SYNTHETIC}.target", "w", encoding="utf-8", newline="\n") as targets):
        for number, sentence in enumerate(distinct(read_lines(folder / "train.target"), folder), start=1):
            for copy in range(settings.copies):
                # A string as seed is hashed by SHA-512, not by `hash`, which differs between processes.
                wrong = corrupt(sentence, wordlist, settings, Random(f"{settings.seed} {number - 1} {copy}"))
                identical += wrong == sentence
                sources.write(wrong + "\n")
                targets.write(sentence + "\n")
    return {"sentences": number, "pairs": number * settings.copies, "identical": identical}


class Frequencies:
    """Strings to draw from, with their counts as weights."""

    def __init__(self, counts: Counter[str], most: int | None = None) -> None:
        # Ties are ordered by string, so that draws do not depend on the order of the corpus.
        self.strings = sorted(counts, key=lambda string: (-counts[string], string))[:most]
        self._ends = list(accumulate(counts[string] for string in self.strings))

    def draw(self, random: Random) -> str:
        """Return one of them, or an empty string if there are none."""
        return random.choices(self.strings, cum_weights=self._ends)[0] if self.strings else ""


class WordList:
    """The words, in lower case, and the punctuation marks of some sentences."""

    def __init__(self, sentences: Iterable[str]) -> None:
        counts = Counter(text.lower() for sentence in sentences for _, text in _TOKEN.findall(sentence))
        self.words = Frequencies(Counter({text: counts[text] for text in counts if _is_word(text)}), _WORDS)
        self.marks = Frequencies(Counter({text: counts[text] for text in counts if not _is_word(text)}))
        self._by_rest: dict[str, list[str]] = {}
        for word in self.words.strings:
            for rest in _rests(word):
                self._by_rest.setdefault(rest, []).append(word)

    def neighbours(self, word: str) -> list[str]:
        """Return the other words that become equal to this one if each of both may lose a letter; sorted.

        >>> WordList(["from form for of forms"]).neighbours("form")
        ['for', 'forms', 'from']
        """
        word = word.lower()
        return sorted({other for rest in _rests(word) for other in self._by_rest.get(rest, ())} - {word})


def corrupt(sentence: str, wordlist: WordList, settings: NoiseSettings, random: Random) -> str:
    """Return a wrong version of a normalised sentence, or by chance the sentence itself."""
    severity = random.expovariate(1.0)
    tokens = _TOKEN.findall(sentence)
    texts = [text for _, text in tokens]
    for place in range(len(texts)):
        if not _is_word(texts[place]):
            if random.random() < severity * settings.marks:
                _draw(_OF_MARKS, random)(texts, place, wordlist, random)
            continue
        if random.random() < severity * settings.characters:
            _misspell(texts, place, wordlist, random)
        if random.random() < severity * settings.words:
            _draw(_OF_WORDS, random)(texts, place, wordlist, random)
    wrong = "".join(space + text for (space, _), text in zip(tokens, texts, strict=True) if text)
    return " ".join(wrong.split()) or sentence


# Changes the text at one place, where possible: (texts, place, wordlist, random).
Operation = Callable[[list[str], int, WordList, Random], None]


def _replace(texts: list[str], place: int, wordlist: WordList, random: Random) -> None:
    """Replace a word by one of similar spelling, often another form of it, or sometimes by any word."""
    near = wordlist.neighbours(texts[place])
    other = random.choice(near) if near and random.random() < 0.8 else wordlist.words.draw(random)
    texts[place] = other[:1].upper() + other[1:] if texts[place][0].isupper() else other


def _delete(texts: list[str], place: int, wordlist: WordList, random: Random) -> None:
    texts[place] = ""


def _insert(texts: list[str], place: int, wordlist: WordList, random: Random) -> None:
    texts[place] = f"{wordlist.words.draw(random)} {texts[place]}"


def _swap(texts: list[str], place: int, wordlist: WordList, random: Random) -> None:
    if place + 1 < len(texts) and _is_word(texts[place + 1]):
        texts[place], texts[place + 1] = texts[place + 1], texts[place]


def _change_case(texts: list[str], place: int, wordlist: WordList, random: Random) -> None:
    texts[place] = texts[place][0].swapcase() + texts[place][1:]


def _add_mark(texts: list[str], place: int, wordlist: WordList, random: Random) -> None:
    texts[place] += wordlist.marks.draw(random)


def _change_mark(texts: list[str], place: int, wordlist: WordList, random: Random) -> None:
    texts[place] = wordlist.marks.draw(random)


def _misspell(texts: list[str], place: int, wordlist: WordList, random: Random) -> None:
    """Insert, delete or replace a letter, or swap two adjacent ones; words of one letter do not change."""
    word = texts[place]
    if len(word) == 1:
        return
    at = random.randrange(len(word))
    letter = random.choice(wordlist.words.draw(random) or word)
    texts[place] = random.choice((
        word[:at] + letter + word[at:],
        word[:at] + word[at + 1:],
        word[:at] + letter + word[at + 1:],
        word[:at] + word[at:at + 2][::-1] + word[at + 2:]))


# Weights: roughly the relative frequencies of these errors in ua-gec's training pairs.
_OF_WORDS: dict[Operation, int] = {_replace: 45, _insert: 14, _delete: 14, _add_mark: 15, _change_case: 6, _swap: 6}
_OF_MARKS: dict[Operation, int] = {_delete: 2, _change_mark: 3}  # a mark may be replaced by itself


def _draw(operations: dict[Operation, int], random: Random) -> Operation:
    return random.choices(list(operations), list(operations.values()))[0]


def _is_word(text: str) -> bool:
    return text[:1].isalnum() or text[:1] == "_"


def _rests(word: str) -> set[str]:
    """The word, and the word without each of its letters."""
    return {word, *(word[:place] + word[place + 1:] for place in range(len(word)))}
