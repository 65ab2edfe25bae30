"""The `corpus` block of params.yaml, checked when it is built.

A kind of source is a file of `readers`, which nothing lists: `home-assistant` is `readers/home_assistant.py`. The block
of the file's name, here `corpus.home_assistant`, has its settings. The file defines

- `Settings`, a dataclass of what its block contains;
- `read(settings, languages) -> Splits`;
- `inputs(settings)`, the paths of the user's own files that `read` reads, including missing ones, unless it reads none;
- `read_monolingual(settings, languages)` if it also has source texts without translations (`sources/monolingual.py`);
- `LICENCE`, the name of its texts' licence on the Hugging Face Hub, for the cards, if it is known, and
  `licences(settings)`, the licence of each part of the corpus, if they differ;
- `BY_LANGUAGE = True` if it finds both texts by their language codes alone. For the others a corpus of corrections has
  the same code on both sides.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from typing import Annotated, Any

from pipeline.checks import Checked, Positive, Range, Seed, Share
from pipeline.errors import PipelineError
from pipeline.lines import UnicodeForm
from pipeline.sources import readers


@dataclass(frozen=True)
class FilterSettings(Checked):
    """Which pairs are kept. Lengths are measured after normalisation."""

    unicode: UnicodeForm = "NFC"
    """Unicode normalisation form: NFC, NFKC or none."""
    min_words: Positive = 3
    """Fewest white-space separated words of a source."""
    max_words: Positive = 60
    """Most white-space separated words of a source."""
    max_length_ratio: Annotated[float, Range(at_least=1)] = 4.0
    """Longer side over shorter side, in characters: words would not do for scripts without spaces."""
    drop_identical: bool = True
    """Drop pairs whose two sides are equal."""
    drop_duplicates: bool = True
    """Keep only the first of several equal pairs."""
    evaluation: bool = True
    """True: filter validation and test like train, and drop from them the source strings of train. False: keep all
    lines of both (a published test set), and drop their source strings from train."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_words > self.max_words:
            raise PipelineError(f"params.yaml: corpus.filters: min_words {self.min_words} must not exceed max_words "
                                f"{self.max_words}")


@dataclass(frozen=True)
class KeepSettings(Checked):
    """How many pairs of each split to keep, the first ones; null: all. For quick trials."""

    train: Positive | None = None
    validation: Positive | None = None
    test: Positive | None = None


@dataclass(frozen=True)
class NoiseSettings(Checked):
    """Synthetic errors in the targets of train, from which to learn correction before the real ones (`noise.py`)."""

    copies: Positive = 2
    """Wrong versions per sentence."""
    words: Share = 0.08
    """Share of the words that are replaced, deleted, inserted, swapped with the next one, given another case or
    followed by a wrong punctuation mark. The three shares are means over sentences, which vary much."""
    characters: Share = 0.04
    """Share of the words that are misspelt."""
    marks: Share = 0.2
    """Share of the punctuation marks that are deleted or changed into another."""
    seed: Seed = 1


@dataclass(frozen=True)
class CorpusSettings:
    """Where the sentence pairs come from and which are kept."""

    source: str
    """Kind of source."""
    source_language: str = "en"
    """Language code as the source writes it. In YAML quote codes such as "no"."""
    target_language: str = "de"
    """Language code as the source writes it."""
    filters: FilterSettings = field(default_factory=FilterSettings)
    keep: KeepSettings = field(default_factory=KeepSettings)
    noise: NoiseSettings | None = None
    """Null: no synthetic pairs."""

    def __post_init__(self) -> None:
        sources = [name.replace("_", "-") for name in _names()]
        if self.source not in sources:
            raise PipelineError(f"params.yaml: corpus.source is {self.source!r}; choose one of {', '.join(sources)}")
        if self.block is None:
            raise PipelineError(f"params.yaml: corpus.source is '{self.source}' but the block corpus."
                                f"{self.source.replace('-', '_')} is missing; add it")
        same = self.source_language == self.target_language
        if same and getattr(self.reader, "BY_LANGUAGE", False):
            raise PipelineError(f"params.yaml: corpus.source_language and corpus.target_language are both "
                                f"'{self.source_language}'; choose two languages")
        if not same and self.noise is not None:
            raise PipelineError(f"params.yaml: corpus.noise makes wrong {self.target_language} of right "
                                f"{self.target_language}, but corpus.source_language is '{self.source_language}'; make "
                                "both languages one, or remove corpus.noise")

    @classmethod
    def variant(cls, block: Mapping[str, Any], where: str) -> "type[CorpusSettings]":
        """A subclass that has a field per kind of source for its block; see `pipeline.blocks.build`."""
        return _with_blocks(_names())

    @property
    def reader(self) -> Any:
        """The file of `readers` for the source."""
        return _reader(self.source.replace("-", "_"))

    @property
    def block(self) -> Any:
        """The settings of the source."""
        return getattr(self, self.source.replace("-", "_"), None)


def _names() -> tuple[str, ...]:
    return tuple(found.name for found in pkgutil.iter_modules(readers.__path__))


def _reader(name: str) -> Any:
    return importlib.import_module(f"pipeline.sources.readers.{name}")


@cache
def _with_blocks(names: tuple[str, ...]) -> type[CorpusSettings]:
    blocks: list[tuple[str, Any, Any]] = [(name, _reader(name).Settings | None, None) for name in names]
    return make_dataclass(CorpusSettings.__name__, blocks, bases=(CorpusSettings,), frozen=True)
