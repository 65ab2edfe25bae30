"""A model that reads and writes text: of a trained family, of a model folder, or of another library."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from pipeline import layout
from pipeline.checks import Refused
from pipeline.corpus.bpe import Tokenizer
from pipeline.count_model.model import CountModel
from pipeline.count_model.shortlist import Shortlist
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.interop.model_folder import ModelSettings, check_files, read_settings
from pipeline.lines import UnicodeForm, normalise
from pipeline.model.checkpoint import CONFIG, WEIGHTS, load_checkpoint, load_weights, read_config
from pipeline.model.networks import rebuild
from pipeline.model.settings import OrderSettings, VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.params import Params

_COUNTED = ("encoder_layers", "decoder_layers", "directions", "words", "block")
"""What a network has one object each of, even without memory for its weights."""
_MOST, _LARGEST, _TABLES = 1000, 1 << 20, 1 << 30
"""The most of these in a model folder, its verifier's included; the largest of the other numbers; and the most bytes of
the tables that follow from them, such as masks."""


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


def is_trained(family: str, folder: Path = Path()) -> bool:
    """Whether a family has a checkpoint in the folder of a run."""
    return (folder / layout.checkpoint(family) / CONFIG).exists()


@dataclass(frozen=True)
class TextModel:
    """A network and the text that it reads and writes."""

    network: Any
    """A module with the methods of its kind (`pipeline.decoding.protocol`)."""
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
        PipelineError: it is not a model folder, or one of another format, or a file is missing, damaged or extra.
    """
    settings = read_settings(folder)
    check_files(folder, settings)
    _check_shapes(folder)
    return _open(folder, folder, settings.unicode), settings


def _open(checkpoint: Path, vocabulary: Path, unicode: UnicodeForm, order: OrderSettings | None = None) -> TextModel:
    tokenizer = Tokenizer.load(vocabulary)
    network, _ = load_checkpoint(checkpoint, tokenizer.digest, order)
    return TextModel(network, tokenizer, network.settings.max_length, unicode)


def _check_shapes(folder: Path) -> None:
    """Check the network that a model folder describes against its weights, before there is any memory for it.

    Raises:
        PipelineError: they do not fit, or what is described is not a network, or is too large for one.
    """
    path, config = folder / CONFIG, read_config(folder)
    try:
        _check_numbers({name: value for name, value in config.items() if name != "training"})
        vocabulary = VocabularySettings(**config["vocabulary"])
        bytes.fromhex(vocabulary.digest)
        with torch.device("meta"):
            network = cast(Transformer, rebuild(config, vocabulary))
        tables = sum(buffer.nbytes for buffer in network.buffers())
        if tables > _TABLES:
            raise Refused(f"its tables of positions have {tables >> 20} MiB, more than {_TABLES >> 20}")
    except (ArithmeticError, KeyError, RuntimeError, TypeError, ValueError, PipelineError) as error:
        raise PipelineError(f"{path}: describes no network ({error}); export the model again") from None
    load_weights(network, folder / WEIGHTS)


def _check_numbers(described: Mapping[str, Any]) -> None:
    counted = 0.0
    for name, value in _numbers(described):
        small = abs(value) <= _LARGEST
        counted += abs(value) if small and name in _COUNTED else 0
        if not small or counted > _MOST:
            raise Refused(f"{name}: {value}: above {_LARGEST:,}, or with others of its kind above {_MOST:,}")


def _numbers(described: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers in a description and in those within it, by their names."""
    for name, value in described.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, int | float):
            yield name, value


def open_shortlist(candidates: int) -> Shortlist:
    """The shortlist by the current folder's count model, with some candidates per source piece.

    Raises:
        PipelineError: the count model or the vocabulary is missing or damaged, or the number is negative.
    """
    paths = [layout.counts(side) for side in ("both", "distilled", "raw")]  # the more pairs, the better
    path = next(filter(Path.exists, paths), paths[0])
    return Shortlist(CountModel.open(path, Tokenizer.load(layout.BPE).digest), candidates)
