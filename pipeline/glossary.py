"""Terms: source phrases whose translation is prescribed."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.lines import normalise, read_lines


class Glossary:
    """Finds the terms of a source sentence.

    A phrase is found as whole words, as it is written or with a capital first letter; of phrases that overlap, the one
    that begins first, and of these the longest.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        """Take target phrases by source phrase, which are normalised (NFC).

        Raises:
            PipelineError: a phrase has no words, or a source phrase occurs twice.
        """
        self._targets = dict[str, str]()
        for given, translation in terms.items():
            phrase, target = normalise(given), normalise(translation)
            if not (phrase and target):
                raise PipelineError(f"glossary: {given!r}, {translation!r}: must be a source and a target phrase")
            if phrase in self._targets:
                raise PipelineError(f"glossary: {phrase!r} occurs before; keep one of the terms")
            self._targets[phrase] = target
        self._phrases = {phrase[0].upper() + phrase[1:]: phrase for phrase in self._targets}
        self._phrases |= {phrase: phrase for phrase in self._targets}
        longest_first = "|".join(map(re.escape, sorted(self._phrases, key=len, reverse=True)))
        self._pattern = re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)") if terms else None

    def __len__(self) -> int:
        return len(self._targets)

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Read a file with a term per line: source phrase, tab, target phrase; blank lines are skipped.

        Raises:
            PipelineError: the file cannot be read, a line has another form, or a source phrase occurs twice.
        """
        terms: dict[str, str] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if not line.strip():
                continue
            phrases = [normalise(part) for part in line.split("\t")]
            if len(phrases) != 2 or not all(phrases):
                raise PipelineError(f"{path}:{number}: must be a source phrase, a tab and a target phrase")
            if phrases[0] in terms:
                raise PipelineError(f"{path}:{number}: {phrases[0]!r} occurs before; keep one of the lines")
            terms[phrases[0]] = phrases[1]
        return cls(terms)

    def targets(self, sentence: str) -> list[str]:
        """The target phrases that the translation of a sentence, in any Unicode form, must contain, each once.

        >>> Glossary({"light": "Leuchte", "light switch": "Schalter"}).targets("Light switch, daylight, light!")
        ['Schalter', 'Leuchte']
        """
        if self._pattern is None:
            return []
        found: Iterable[str] = (self._targets[self._phrases[phrase]]
                                for phrase in self._pattern.findall(normalise(sentence)))
        return list(dict.fromkeys(found))
