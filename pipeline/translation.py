"""Translates and scores text by a trained family or by a model of another library."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

import torch

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.protocol import is_ordered
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.lines import UnicodeForm, normalise
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.transformer import Transformer
from pipeline.params import Params
from pipeline.vocabulary import PAD

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

    @property
    def target_pieces(self) -> list[str]: ...

    def encode_source(self, sentences: list[str]) -> list[list[int]]: ...

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

    def warning(self, pieces: int, ended: bool) -> str | None:
        """A note if a source of so many pieces, or its translation, was cut; None otherwise."""
        if pieces >= self.longest:
            return f"source cut to the model's {self.longest - 1} pieces"
        return None if ended else "translation cut at the length limit"


def open_family(params: Params, family: str) -> TextModel:
    """A trained family of the current folder.

    Raises:
        PipelineError: the name is unknown, or its checkpoint is missing or damaged.
    """
    network, tokenizer = _open_trained(params, family)
    return TextModel(network, tokenizer, network.settings.max_length, params.corpus.filters.unicode)


def _open_trained(params: Params, family: str) -> tuple[Transformer, Tokenizer]:
    tokenizer = Tokenizer.load(layout.BPE)
    network, _ = load_checkpoint(layout.checkpoint(family), tokenizer.digest, params.family(family).order)
    return network, tokenizer


class Translator:
    """Translates lines in batches and returns one translation per line, in their order."""

    def __init__(self, params: Params, model: TextModel, decoder: str, *, nbest: int = 1, device: str = "auto",
                 batch_rows: int = 32, scores: bool = False) -> None:
        """Args:
            params: with the decoder and the length limit.
            model: is moved to the device.
            decoder: a name in params.
            nbest: hypotheses per line.
            device: cpu, cuda or auto.
            batch_rows: sentences searched together.
            scores: whether to compute the hypotheses' scores, which a search for the best one does not need.

        Raises:
            PipelineError: a name is unknown, or the decoder has too few beams or does not suit the vocabulary.
        """
        block = dict(params.decoder(decoder, joint=model.text.joint))
        if nbest > 1:
            widest = block.get("beams", block.get("candidates", 1))
            if nbest > widest:
                raise PipelineError(f"--nbest: {nbest} needs a decoder with at least as many beams; {decoder!r} has "
                                    f"{widest}")
            block["nbest"] = nbest
        self.model, self.decoder, self.device = model, decoder, torch.device(pick_device(device))
        self.network = model.network.to(self.device)
        limit = params.length_limit(model.longest)
        self._decode = make_decoder(decoder, block, limit)
        self._batch_rows, self._scores = batch_rows, scores

    def __call__(self, lines: Iterable[str], ahead: int = 32) -> Iterator[Translation]:
        """Translate lines lazily.

        Args:
            lines: without line ends.
            ahead: batches to read ahead, so that sentences of similar length can share one.
        """
        remaining = iter(lines)
        while chunk := list(islice(remaining, ahead * self._batch_rows)):
            yield from self._chunk(chunk)

    def _chunk(self, lines: list[str]) -> list[Translation]:
        encoded = self.model.encode(lines)
        done = {row: Translation(line, [""], [0.0] if self._scores else None, 0)
                for row, (line, ids) in enumerate(zip(lines, encoded, strict=True)) if not ids}
        by_length = sorted((row for row in range(len(lines)) if row not in done), key=lambda row: -len(encoded[row]))
        for start in range(0, len(by_length), self._batch_rows):
            rows = by_length[start:start + self._batch_rows]
            source = pad_sources([encoded[row] for row in rows], self.model.longest).to(self.device)
            found = self._decode(self.network, source)
            words = [[hypothesis[:length] for hypothesis, length in zip(*both, strict=True)]
                     for both in zip(found.tokens.tolist(), found.lengths.tolist(), strict=True)]
            scores = found.scores.tolist() if self._scores else None
            for place, row in enumerate(rows):
                count = _found(found, place)
                done[row] = Translation(lines[row], self.model.text.decode_targets(words[place][:count]),
                                        scores and scores[place][:count], int(found.calls[place]),
                                        self.model.warning(len(encoded[row]), bool(found.ended[place, 0])))
        return [done[row] for row in range(len(lines))]


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

    def __init__(self, params: Params, family: str, device: str = "auto") -> None:
        self.network, self.tokenizer = _open_trained(params, family)
        self.longest, self.unicode = self.network.settings.max_length, params.corpus.filters.unicode
        self.device = torch.device(pick_device(device))
        self.network.to(self.device)
        if not is_ordered(self.network):
            raise PipelineError(f"--family: {family!r} is a {self.network.kind} model, which gives no probability to a "
                                "translation; choose an ordered family")

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
