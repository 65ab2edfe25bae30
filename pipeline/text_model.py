"""A model that reads and writes text: of a trained family, of a model folder, or of another library."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.count_model.model import CountModel
from pipeline.count_model.shortlist import Shortlist
from pipeline.decoding.limits import LengthLimit
from pipeline.interop.model_folder import ModelSettings, check_files, read_settings
from pipeline.lines import UnicodeForm, normalise
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.settings import OrderSettings
from pipeline.params import Params


class Text(Protocol):
    """Text to ids and back; ids contain no padding, start or end symbols. See `pipeline.corpus.bpe.Tokenizer`."""

    joint: bool
    leading: tuple[int, ...]
    """The ids before the words of every translation, such as its language."""

    @property
    def target_pieces(self) -> list[str]: ...

    def encode_source(self, sentences: list[str]) -> list[list[int]]: ...

    def encode_target(self, sentences: list[str]) -> list[list[int]]: ...

    def decode_target(self, ids: Iterable[int]) -> str: ...

    def decode_targets(self, rows: Iterable[Iterable[int]]) -> list[str]: ...


@dataclass(frozen=True)
class TextModel:
    """A network and the text that it reads and writes."""

    network: Any
    """A module that speaks the verbs of its kind (`pipeline.decoding.protocol`)."""
    text: Text
    longest: int
    """Tokens of a source or a target, end symbol included."""
    unicode: UnicodeForm
    """The Unicode form to which sources are converted."""

    def encode(self, lines: Iterable[str]) -> list[list[int]]:
        """The ids of source lines, without end symbols; no ids for a line without words."""
        return self.text.encode_source([normalise(line, self.unicode) for line in lines])

    def encode_prefix(self, prefix: str) -> list[int]:
        """The ids that a translation with this beginning has first, as many as the model reads; none without words."""
        words, = self.text.encode_target([normalise(prefix, self.unicode)])
        return [*self.text.leading, *words][:self.longest - 1] if words else []

    def encode_term(self, phrase: str) -> list[int]:
        """The ids of a part of a translation."""
        words, = self.text.encode_target([normalise(phrase, self.unicode)])
        return words

    def warning(self, pieces: int, ended: bool) -> str | None:
        """A note if a source of so many pieces, or its translation, was cut; None otherwise."""
        if pieces >= self.longest:
            return f"source cut to the model's {self.longest - 1} pieces"
        return None if ended else "translation cut at the length limit"


class SearchSettings(Protocol):
    """The decoders and the length limit of a model: `Params`, or a model folder's `ModelSettings`."""

    def decoder(self, name: str, where: str = "--decoder", joint: bool | None = None) -> Mapping[str, Any]: ...

    def length_limit(self, positions: int) -> LengthLimit: ...


def open_family(params: Params, family: str) -> TextModel:
    """A trained family of the current folder.

    Raises:
        PipelineError: the name is unknown, or its checkpoint is missing or damaged.
    """
    return _open(layout.checkpoint(family), layout.BPE, params.corpus.filters.unicode, params.family(family).order)


def open_folder(folder: Path) -> tuple[TextModel, ModelSettings]:
    """The model of a model folder, and its settings.

    Raises:
        PipelineError: it is no model folder, or one of another format, or a file is missing, damaged or extra.
    """
    settings = read_settings(folder)
    check_files(folder, settings)
    return _open(folder, folder, settings.unicode), settings


def _open(checkpoint: Path, vocabulary: Path, unicode: UnicodeForm, order: OrderSettings | None = None) -> TextModel:
    tokenizer = Tokenizer.load(vocabulary)
    network, _ = load_checkpoint(checkpoint, tokenizer.digest, order)
    return TextModel(network, tokenizer, network.settings.max_length, unicode)


def open_shortlist(candidates: int) -> Shortlist:
    """The shortlist by the current folder's count model, with some candidates per source piece.

    Raises:
        PipelineError: the count model or the vocabulary is missing or damaged, or the number is negative.
    """
    paths = [layout.counts(side) for side in ("both", "distilled", "raw")]  # the more pairs, the better
    path = next(filter(Path.exists, paths), paths[0])
    return Shortlist(CountModel.open(path, Tokenizer.load(layout.BPE).digest), candidates)
