"""Synthetic errors: wrong versions of right sentences, to learn correction from before the real errors are seen.

Ge et al. (2022, section 4.1.1) train on synthetic pairs made as Grundkiewicz et al. (2019) and Zhang et al. (2019)
make them; this noise is our own. Errors gather: of ua-gec's training sentences 54 % are right, and each further wrong
token is about half as frequent as the one before (24, 11, 6, 3 %). Counts fall like that if errors come at random at a
rate that is itself exponentially distributed over sentences, so that is how they are made here. Words and marks are
drawn as often as the writers of the wrong side use them: they put a hyphen where a dash belongs, and not the reverse.
"""

import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path
from random import Random

from pipeline.layout import SYNTHETIC
from pipeline.lines import read_lines
from pipeline.sources.settings import NoiseSettings

_TOKEN = re.compile(r"( ?)(\w+(?:['’ʼ-]\w+)*|[^\w\s])")  # the blank before it; a word or a single mark
_WORDS = 30_000  # of the most frequent words, from which others are drawn: neighbours in spelling take 2 KB a word


def write_synthetic(settings: NoiseSettings, folder: Path) -> dict[str, int]:
    """Write `folder/synthetic.{source,target}`: wrong versions of the distinct targets of `folder/train.*`.

    Returns:
        How many sentences, pairs, and pairs among them whose sides are equal.
    """
    lexicon = Lexicon(read_lines(folder / "train.source"))
    sentences = dict.fromkeys(read_lines(folder / "train.target"))
    identical = 0
    with (open(folder / f"{SYNTHETIC}.source", "w", encoding="utf-8", newline="\n") as sources,
          open(folder / f"{SYNTHETIC}.target", "w", encoding="utf-8", newline="\n") as targets):
        for index, sentence in enumerate(sentences):
            for copy in range(settings.copies):
                # A string as seed is hashed by SHA-512, not by `hash`, which differs from process to process.
                wrong = corrupt(sentence, lexicon, settings, Random(f"{settings.seed} {index} {copy}"))
                identical += wrong == sentence
                sources.write(wrong + "\n")
                targets.write(sentence + "\n")
    return {"sentences": len(sentences), "pairs": len(sentences) * settings.copies, "identical": identical}


class Frequencies:
    """Strings to draw from, each as often as it was counted."""

    def __init__(self, counts: Counter[str], most: int | None = None) -> None:
        # Ties by the string itself: what is drawn must not depend on the order of the corpus.
        self.strings = sorted(counts, key=lambda string: (-counts[string], string))[:most]
        self._ends = list(accumulate(counts[string] for string in self.strings))

    def draw(self, random: Random) -> str:
        """One of them, or an empty string if there are none."""
        return self.strings[bisect(self._ends, random.random() * self._ends[-1])] if self.strings else ""


class Lexicon:
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
        """Other words that become equal to this one if each of the two may leave out a letter; sorted.

        >>> Lexicon(["from form for of forms"]).neighbours("form")
        ['for', 'forms', 'from']
        """
        word = word.lower()
        return sorted({other for rest in _rests(word) for other in self._by_rest.get(rest, ())} - {word})


def corrupt(sentence: str, lexicon: Lexicon, settings: NoiseSettings, random: Random) -> str:
    """A wrong version of a normalised sentence, or the sentence itself: errors are a matter of chance.

    Args:
        sentence: with single blanks.
        lexicon: whose words and marks take the place of others.
        settings: mean shares of what is changed.
        random: the only source of chance.
    """
    severity = random.expovariate(1.0)
    tokens = _TOKEN.findall(sentence)
    texts = [text for _, text in tokens]
    for place in range(len(texts)):
        if not _is_word(texts[place]):
            if random.random() < severity * settings.marks:
                _draw(_OF_MARKS, random)(texts, place, lexicon, random)
            continue
        if random.random() < severity * settings.characters:
            _misspell(texts, place, lexicon, random)
        if random.random() < severity * settings.words:
            _draw(_OF_WORDS, random)(texts, place, lexicon, random)
    wrong = "".join(blank + text for (blank, _), text in zip(tokens, texts, strict=True) if text)
    return " ".join(wrong.split()) or sentence


# An operation changes what stands at one place, or leaves it if it cannot: (texts, place, lexicon, random).
Operation = Callable[[list[str], int, Lexicon, Random], None]


def _replace(texts: list[str], place: int, lexicon: Lexicon, random: Random) -> None:
    """By a word of like spelling, often another form of the word; else, and now and then, by any word."""
    near = lexicon.neighbours(texts[place])
    other = random.choice(near) if near and random.random() < 0.8 else lexicon.words.draw(random)
    texts[place] = other[:1].upper() + other[1:] if texts[place][0].isupper() else other


def _leave_out(texts: list[str], place: int, lexicon: Lexicon, random: Random) -> None:
    texts[place] = ""


def _put_in(texts: list[str], place: int, lexicon: Lexicon, random: Random) -> None:
    texts[place] = f"{lexicon.words.draw(random)} {texts[place]}"


def _swap(texts: list[str], place: int, lexicon: Lexicon, random: Random) -> None:
    if place + 1 < len(texts) and _is_word(texts[place + 1]):
        texts[place], texts[place + 1] = texts[place + 1], texts[place]


def _change_case(texts: list[str], place: int, lexicon: Lexicon, random: Random) -> None:
    texts[place] = texts[place][0].swapcase() + texts[place][1:]


def _add_mark(texts: list[str], place: int, lexicon: Lexicon, random: Random) -> None:
    texts[place] += lexicon.marks.draw(random)


def _change_mark(texts: list[str], place: int, lexicon: Lexicon, random: Random) -> None:
    texts[place] = lexicon.marks.draw(random)


def _misspell(texts: list[str], place: int, lexicon: Lexicon, random: Random) -> None:
    """One letter put in, left out or replaced, or two neighbours swapped; a word of one letter is left alone."""
    word = texts[place]
    if len(word) == 1:
        return
    at = random.randrange(len(word))
    letter = random.choice(lexicon.words.draw(random) or word)
    texts[place] = random.choice((
        word[:at] + letter + word[at:],
        word[:at] + word[at + 1:],
        word[:at] + letter + word[at + 1:],
        word[:at] + word[at:at + 2][::-1] + word[at + 2:]))


# Weights as these errors are to each other in ua-gec's training pairs, roughly.
_OF_WORDS: dict[Operation, int] = {_replace: 45, _put_in: 14, _leave_out: 14, _add_mark: 15, _change_case: 6, _swap: 6}
_OF_MARKS: dict[Operation, int] = {_leave_out: 2, _change_mark: 3}  # a mark may be changed into itself


def _draw(operations: dict[Operation, int], random: Random) -> Operation:
    return random.choices(list(operations), list(operations.values()))[0]


def _is_word(text: str) -> bool:
    return text[:1].isalnum() or text[:1] == "_"


def _rests(word: str) -> set[str]:
    """The word, and the word without each of its letters."""
    return {word, *(word[:place] + word[place + 1:] for place in range(len(word)))}
