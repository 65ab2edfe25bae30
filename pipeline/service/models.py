"""What the service asks of a model: the only file of this package that knows how text is translated."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from pipeline.text_model import SearchSettings, TextModel
from pipeline.trace import NothingDrafted, Trace, Tracer
from pipeline.translation import Translation

_FIRST_WORDS = "a b c"
_REPETITIONS = 3
"""Searches of a line that is explained; the quickest was disturbed least."""


@dataclass(frozen=True)
class Explanation:
    """How the translation of one line was found."""

    translation: Translation
    seconds: float
    """The time of the search for this line alone, from text to text."""
    trace: Trace | None
    """The drafts and what became of them; None if the decoder drafts nothing."""
    pieces: Sequence[str]
    """The target vocabulary, by id."""


class Model(Protocol):
    """A model of the service. One thread at a time calls it."""

    @property
    def name(self) -> str:
        """As requests name it."""

    @property
    def decoders(self) -> Sequence[str]:
        """Their names; the first is the default."""

    @property
    def languages(self) -> tuple[str, str] | None:
        """Of its sources and of its translations; None: unknown."""

    def translate(self, decoder: str, lines: list[str]) -> list[Translation]:
        """One translation per line, in their order."""

    def explain(self, decoder: str, line: str) -> Explanation:
        """The translation of a line, and how it was found."""


class ServedModel:
    """A `Model` that this pipeline searches."""

    def __init__(self, name: str, decoders: Sequence[str], settings: SearchSettings, model: TextModel, *,
                 languages: tuple[str, str] | None = None, device: str) -> None:
        """Args: languages, if known, and those of `pipeline.translation.Translator`.

        Raises:
            PipelineError: a decoder is unknown or does not suit the model.
        """
        self.name, self.decoders, self.languages = name, tuple(decoders), languages
        self._pieces = model.text.target_pieces
        self._searches = {decoder: Tracer(settings, model, decoder, device=device) for decoder in decoders}
        # The first search of a process compiles code, or reads what another process has compiled.
        self._drafting = {decoder for decoder, search in self._searches.items() if _drafts(search)}

    def translate(self, decoder: str, lines: list[str]) -> list[Translation]:
        return list(self._searches[decoder](lines))

    def explain(self, decoder: str, line: str) -> Explanation:
        search = self._searches[decoder]
        seconds = []
        for _ in range(_REPETITIONS):
            started = perf_counter()
            translation, = search([line])
            seconds.append(perf_counter() - started)
        return Explanation(translation, min(seconds), search.trace(line) if decoder in self._drafting else None,
                           self._pieces)


def _drafts(search: Tracer) -> bool:
    with suppress(NothingDrafted):
        search.trace(_FIRST_WORDS)
        return True
    return False
