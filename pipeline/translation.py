"""Translates and scores text by a trained family or by a model of another library."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, cast

import torch
from torch import Tensor

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.count_model.model import CountModel
from pipeline.count_model.shortlist import Shortlist
from pipeline.decoding.forced import Prefixes
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import is_ordered
from pipeline.decoding.settings import ForcedDecoder, Terms, make_decoder
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.glossary import Glossary
from pipeline.interop.model_folder import ModelSettings, check_files, read_settings
from pipeline.lines import UnicodeForm, normalise
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.quantised import FORMATS, in_format
from pipeline.model.settings import OrderSettings
from pipeline.params import Params
from pipeline.vocabulary import PAD

Search = Callable[[Any, Tensor, LengthLimit], Hypotheses]
"""A decoder in Python: from a model, padded ids (B, S) and the greatest length of a translation to hypotheses."""
_PLACEHOLDER = re.compile(r"\{[^{}\s]+\}|%\([^()\s]+\)[a-z]|%[sd]")


@dataclass(frozen=True)
class Translation:
    """One source line."""

    source: str
    hypotheses: list[str]
    """Best first; one empty string for a line without words."""
    scores: list[float] | None
    """Length-penalised log-probabilities of the hypotheses; None if they were not requested."""
    calls: int
    """Decoder calls."""
    warning: str | None = None
    """A note for the reader if the source or the translation was cut."""


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
    """The model of a model folder, and what the folder says of it.

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


class Translator:
    """Translates lines in batches and returns one translation per line, in their order."""

    def __init__(self, params: SearchSettings, model: TextModel, decoder: str | Search, *, nbest: int = 1,
                 device: str = "auto", batch_rows: int = 32, scores: bool = False, glossary: Glossary | None = None,
                 shortlist: Shortlist | None = None, quantization: str | None = None) -> None:
        """Args:
            params: with the decoder and the length limit.
            model: is moved to the device.
            decoder: a name in params, or a function.
            nbest: hypotheses per line.
            device: cpu, cuda or auto.
            batch_rows: sentences searched together.
            scores: whether to compute the hypotheses' scores, which a search for the best one does not need.
            glossary: terms whose translation is prescribed; only beam search can place them.
            shortlist: the part of the vocabulary to search; greedy and beam search only.
            quantization: float32 or int8, in which the model is searched; None: the decoder's own.

        Raises:
            PipelineError: a name is unknown, or the decoder has too few beams or does not suit the vocabulary.
        """
        limit = params.length_limit(model.longest)
        if isinstance(decoder, str):
            block = dict(params.decoder(decoder, joint=model.text.joint))
            if nbest > 1:
                widest = block.get("beams", block.get("candidates", 1))
                if nbest > widest:
                    raise PipelineError(f"--nbest: {nbest} needs a decoder with at least as many beams; {decoder!r} "
                                        f"has {widest}")
                block["nbest"] = nbest
            if quantization is not None:
                block["quantization"] = quantization
            self._quantization = block.setdefault("quantization", FORMATS[0])
            self._decode = make_decoder(decoder, block, limit, shortlist)
        else:  # its own settings say how many hypotheses it finds
            if shortlist is not None:
                raise PipelineError("shortlist: a decoder that is a function cannot search one; name a decoder")
            self._quantization = quantization or FORMATS[0]
            self._decode = _of_function(decoder, limit, self._quantization)
        self.model, self.decoder, self.device = model, decoder, torch.device(pick_device(device))
        self.network = model.network.to(self.device)
        self._batch_rows, self._scores, self._glossary = batch_rows, scores, glossary or Glossary({})

    @classmethod
    def from_pretrained(cls, folder: str | Path, decoder: str | Search | None = None, *, nbest: int = 1,
                        device: str = "auto", batch_rows: int = 32, scores: bool = False,
                        quantization: str | None = None) -> Self:
        """A translator by the model of a model folder (`python -m pipeline export folder`).

        Args:
            folder: wherever it stands; no other file is read.
            decoder: one of the folder's, which its card lists, or a function; None: the folder's first.
            nbest, device, batch_rows, scores, quantization: as of the constructor.

        Raises:
            PipelineError: as of `open_folder` and of the constructor.
        """
        model, settings = open_folder(Path(folder))
        return cls(settings, model, decoder or settings.default_decoder, nbest=nbest, device=device,
                   batch_rows=batch_rows, scores=scores, quantization=quantization)

    def translate(self, line: str) -> str:
        """The best translation of one line."""
        [found] = self([line])
        return found.hypotheses[0]

    def __call__(self, lines: Iterable[str], ahead: int = 32,
                 prefixes: Iterable[str] | None = None) -> Iterator[Translation]:
        """Translate lines lazily.

        Args:
            lines: without line ends.
            ahead: batches to read ahead, so that sentences of similar length can share one.
            prefixes: per line, what its translation must begin with, or nothing; None: nothing for all lines.

        Raises:
            PipelineError: the decoder cannot force a prefix or place a term.
            TypeError: `lines` is a single text, whose letters would be translated one by one.
        """
        if isinstance(lines, str):
            raise TypeError("a Translator takes a list of lines; translate(line) takes one")
        remaining = zip(lines, repeat("") if prefixes is None else prefixes, strict=False)
        while chunk := list(islice(remaining, ahead * self._batch_rows)):
            yield from self._chunk(*map(list, zip(*chunk, strict=True)))

    def _chunk(self, lines: list[str], prefixes: list[str]) -> list[Translation]:
        encoded = self.model.encode(lines)
        forced = [self.model.encode_prefix(prefix) if prefix else [] for prefix in prefixes]
        wanted = [self._glossary.targets(line) for line in lines]
        done = {row: Translation(line, [""], [0.0] if self._scores else None, 0)
                for row, (line, ids) in enumerate(zip(lines, encoded, strict=True)) if not ids}
        by_length = sorted((row for row in range(len(lines)) if row not in done), key=lambda row: -len(encoded[row]))
        for start in range(0, len(by_length), self._batch_rows):
            rows = by_length[start:start + self._batch_rows]
            source = pad_sources([encoded[row] for row in rows], self.model.longest).to(self.device)
            prefixed, terms = [forced[row] for row in rows], [list(map(self.model.encode_term, wanted[row]))
                                                              for row in rows]
            demands = (prefixed, terms) if any(prefixed) or any(terms) else ()
            found = self._decode(self.network, source, *demands)
            words = [[hypothesis[:length] for hypothesis, length in zip(*both, strict=True)]
                     for both in zip(found.tokens.tolist(), found.lengths.tolist(), strict=True)]
            scores = found.scores.tolist() if self._scores else None
            for place, row in enumerate(rows):
                count = _found(found, place)
                texts = self.model.text.decode_targets(words[place][:count])
                notes = [self.model.warning(len(encoded[row]), bool(found.ended[place, 0])),
                         *_unfulfilled(texts[0], normalise(prefixes[row], self.model.unicode), wanted[row])]
                done[row] = Translation(lines[row], texts, scores and scores[place][:count], int(found.calls[place]),
                                        "; ".join(filter(None, notes)) or None)
        return [done[row] for row in range(len(lines))]


def _of_function(search: Search, limit: LengthLimit, quantization: str) -> ForcedDecoder:
    """A decoder in Python, which nothing can be demanded of."""
    def decode(model: Any, source: Tensor, prefixes: Prefixes = (), terms: Terms = ()) -> Hypotheses:
        if any(prefixes) or any(terms):
            raise PipelineError("a decoder that is a function takes no prefixes and no glossary; name a decoder")
        return search(open_engine(in_format(model, quantization)), source, limit)
    return decode


def _unfulfilled(text: str, prefix: str, terms: Iterable[str]) -> Iterator[str]:
    """Notes on what a translation should have and has not: the vocabulary, or the length limit, can prevent it."""
    if not text.startswith(prefix):
        yield f"the translation does not begin with {prefix!r}"
    for term in terms:
        if term not in text:
            yield f"the translation lacks the term {term!r}"


def _found(found: Hypotheses, sentence: int) -> int:
    """The number of hypotheses of a sentence; a search for only the best one always has it, without its score."""
    return found.tokens.shape[1] if found.tokens.shape[1] == 1 else int((found.scores[sentence] > -torch.inf).sum())


class PairLine(NamedTuple):
    """A translation to be scored."""

    name: str
    """Its file and line, for error messages."""
    source: str
    translation: str


class Scorer:
    """Log-probabilities of given translations."""

    def __init__(self, model: TextModel, device: str = "auto") -> None:
        """Args:
            model: of a family or of a model folder; is moved to the device.
            device: cpu, cuda or auto.

        Raises:
            PipelineError: the model is of a kind that gives translations no probability.
        """
        if not is_ordered(model.network):
            raise PipelineError(f"a {model.network.kind} model gives no probability to a translation; choose one of an "
                                "ordered family")
        self.device = torch.device(pick_device(device))
        self.network, self.tokenizer = model.network.to(self.device), cast(Tokenizer, model.text)
        self.longest, self.unicode = model.longest, model.unicode

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str = "auto") -> Self:
        """A scorer by the model of a model folder; see `Translator.from_pretrained`."""
        return cls(open_folder(Path(folder))[0], device)

    def score(self, source: str, translation: str) -> tuple[float, int]:
        """The score of one pair, as of a call."""
        [found] = self([PairLine("pair", source, translation)])
        return found

    @torch.inference_mode()
    def __call__(self, pairs: Sequence[PairLine]) -> list[tuple[float, int]]:
        """Score pairs as one batch.

        Returns:
            Per pair, the summed log-probability of its slots, end symbols included, and their number.

        Raises:
            PipelineError: a source or a translation is longer than the model's limit.
        """
        sources = self.tokenizer.encode_source([normalise(pair.source, self.unicode) for pair in pairs])
        targets = self.tokenizer.encode_target([normalise(pair.translation, self.unicode) for pair in pairs])
        for pair, left, right in zip(pairs, sources, targets, strict=True):
            for what, ids in (("source", left), ("translation", right)):
                if len(ids) >= self.longest:
                    raise PipelineError(f"{pair.name}: a {what} of {len(ids)} pieces is longer than the model's "
                                        f"{self.longest - 1}; split the pair, or leave it out")
        lengths = torch.tensor([len(target) for target in targets])
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(target, dtype=torch.long) for target in targets],
                                                 batch_first=True, padding_value=PAD)
        source = pad_sources(sources, self.longest).to(self.device)
        arranged = self.network.order.arrange(padded, lengths).to(self.device)
        log_probabilities = self.network(source, arranged).log_softmax(2).gather(2, arranged.unsqueeze(2)).squeeze(2)
        scored = arranged != PAD
        sums = (log_probabilities * scored).sum(1)
        return list(zip(sums.tolist(), scored.sum(1).tolist(), strict=True))


def lost_placeholders(source: str, translation: str) -> list[str]:
    """Placeholders such as {entity_name}, %(count)d or %s of the source that are missing in the translation.

    >>> lost_placeholders("Turn {name} on at {time}", "{name} einschalten")
    ['{time}']
    """
    wanted, found = Counter(_PLACEHOLDER.findall(source)), Counter(_PLACEHOLDER.findall(translation))
    return sorted((wanted - found).elements())


def pick_device(name: str) -> str:
    """cpu or cuda for a user's cpu, cuda or auto.

    Raises:
        PipelineError: the name is unknown, or cuda is not available.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise PipelineError(f"device: {name!r} is unknown; choose cpu, cuda or auto")
    if name == "cuda" and not torch.cuda.is_available():
        raise PipelineError("device: cuda is not available on this machine; choose cpu or auto")
    return name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
