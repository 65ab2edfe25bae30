"""Translates text by a trained family or by a model of another library."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pipeline.chunks import chunks
from pipeline.corpus.batches import by_tokens
from pipeline.corpus.padding import pad_sources
from pipeline.count_model.shortlist import Shortlist
from pipeline.decoding.forced import Prefixes
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import Terms, make_decoder, with_nbest
from pipeline.device import pick_device
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.glossary import Glossary
from pipeline.lines import normalise
from pipeline.model.formats import FORMATS, in_format
from pipeline.text_model import SearchSettings, TextModel, open_folder

Search = Callable[[Any, Tensor, LengthLimit], Hypotheses]
"""A decoder in Python: from a model, padded ids (B, S) and the greatest length of a translation to hypotheses."""


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


class Translator:
    """Translates lines in batches and returns one translation per line, in their order."""

    def __init__(self, settings: SearchSettings, model: TextModel, decoder: str | Search, *, nbest: int = 1,
                 device: str = "auto", batch_tokens: int = 512, scores: bool = False, glossary: Glossary | None = None,
                 shortlist: Shortlist | None = None, quantization: str | None = None) -> None:
        """Args:
            settings: with the decoder and the length limit.
            model: is moved to the device.
            decoder: a name in these settings, or a function.
            nbest: hypotheses per line.
            device: cpu, cuda or auto.
            batch_tokens: source tokens searched together, padding included, or one sentence that has more.
            scores: whether to compute the hypotheses' scores, which a search for the best one does not need.
            glossary: terms whose translation is prescribed; only beam search can place them.
            shortlist: the part of the vocabulary to search; greedy and beam search only.
            quantization: one of `formats.FORMATS`, in which the model is searched; None: the decoder's own.

        Raises:
            PipelineError: a name is unknown, or the decoder finds fewer hypotheses, cannot place terms or does not suit
                the model or its vocabulary.
        """
        if quantization is not None and quantization not in FORMATS:
            raise PipelineError(f"quantization: {quantization!r} is unknown; choose one of {', '.join(FORMATS)}")
        if not isinstance(nbest, int) or nbest < 1:
            raise PipelineError(f"nbest: {nbest!r} must be an integer of at least 1")
        limit = settings.length_limit(model.longest)
        if isinstance(decoder, str):
            block = with_nbest(decoder, settings.decoder(decoder, joint=model.text.joint), nbest, "--nbest")
            if quantization is not None:
                block["quantization"] = quantization
            self._quantization = block.setdefault("quantization", FORMATS[0])
            self._decode = make_decoder(decoder, block, limit, shortlist)
        else:  # its own settings say how many hypotheses it finds
            if shortlist is not None:
                raise PipelineError("shortlist: a decoder that is a function cannot search one; name a decoder")
            if nbest != 1:
                raise PipelineError(f"nbest: {nbest}: a decoder that is a function finds as many hypotheses as its own "
                                    "settings say; leave it out, or name a decoder")
            self._quantization = quantization or FORMATS[0]
            self._decode = _FunctionDecoder(decoder, limit, self._quantization)
        self.model, self.decoder, self.device = model, decoder, torch.device(pick_device(device))
        self.network = model.network.to(self.device)
        self._batch_tokens, self._scores, self._glossary = batch_tokens, scores, glossary or Glossary({})
        self._decode.check(self.network, terms=len(self._glossary) > 0)

    @classmethod
    def from_pretrained(cls, folder: str | Path, decoder: str | Search | None = None, *, nbest: int = 1,
                        device: str = "auto", batch_tokens: int = 512, scores: bool = False,
                        glossary: Glossary | None = None, quantization: str | None = None) -> Self:
        """A translator by the model of a model folder (`python -m pipeline export folder`).

        Args:
            folder: wherever it stands; no other file is read.
            decoder: one of the folder's, which its card lists, or a function; None: the folder's first.
            nbest, device, batch_tokens, scores, glossary, quantization: as of the constructor.

        Raises:
            PipelineError: as of `open_folder` and of the constructor.
        """
        model, settings = open_folder(Path(folder))
        return cls(settings, model, settings.default_decoder if decoder is None else decoder, nbest=nbest,
                   device=device, batch_tokens=batch_tokens, scores=scores, glossary=glossary,
                   quantization=quantization)

    def translate(self, line: str) -> str:
        """The best translation of one line."""
        [found] = self([line])
        return found.hypotheses[0]

    def __call__(self, lines: Iterable[str], prefixes: Iterable[str] | None = None, *,
                 ahead: int = 1024) -> Iterator[Translation]:
        """Translate lines lazily.

        Args:
            lines: without line ends.
            prefixes: one per line, what its translation must begin with, or nothing; None: nothing for all lines.
            ahead: lines to read ahead, at least 1, so that sentences of similar length can share a batch.

        Raises:
            PipelineError: the decoder cannot force a prefix, or `ahead` is below 1; later, when lines are taken: there
                is not one prefix per line.
            TypeError: `lines` or `prefixes` is a single text, whose letters would be taken one by one.
        """
        if isinstance(lines, str):
            raise TypeError("a Translator takes a list of lines; translate(line) takes one")
        if isinstance(prefixes, str):
            raise TypeError("a Translator takes a list of prefixes, one per line")
        if ahead < 1:
            raise PipelineError(f"ahead: {ahead} must be at least 1")
        if prefixes is not None:
            self._decode.check(self.network, prefixes=True)
        return self._translated(zip(lines, repeat("")) if prefixes is None else _paired(lines, prefixes), ahead)

    def _translated(self, remaining: Iterator[tuple[str, str]], ahead: int) -> Iterator[Translation]:
        for chunk in chunks(remaining, ahead):
            yield from self._chunk(*map(list, zip(*chunk, strict=True)))

    def _chunk(self, lines: list[str], prefixes: list[str]) -> list[Translation]:
        encoded = self.model.encode(lines)
        forced = [self.model.encode_prefix(prefix) if prefix else [] for prefix in prefixes]
        beginnings = [normalise(prefix, self.model.unicode) for prefix in prefixes]
        wanted = [[normalise(term, self.model.unicode) for term in self._glossary.targets(line)] for line in lines]
        done = {row: Translation(line, [""], [0.0] if self._scores else None, 0,
                                 next(_unfulfilled("", beginnings[row], ()), None))
                for row, (line, ids) in enumerate(zip(lines, encoded, strict=True)) if not ids}
        by_length = sorted((row for row in range(len(lines)) if row not in done), key=lambda row: -len(encoded[row]))
        longest_first = np.array([len(encoded[row]) + 1 for row in by_length], np.int64)
        for together in by_tokens(longest_first, self._batch_tokens):
            rows = by_length[together]
            source = pad_sources([encoded[row] for row in rows], self.model.longest).to(self.device)
            prefixed, terms = [forced[row] for row in rows], [list(map(self.model.encode_term, wanted[row]))
                                                              for row in rows]
            found = self._decode(self.network, source, prefixed, terms)
            words = [[hypothesis[:length] for hypothesis, length in zip(*both, strict=True)]
                     for both in zip(found.tokens.tolist(), found.lengths.tolist(), strict=True)]
            scores = found.scores.tolist() if self._scores else None
            for place, row in enumerate(rows):
                count = _found(found, place)
                texts = self.model.text.decode_targets(words[place][:count])
                notes = [self.model.warning(len(encoded[row]), bool(found.ended[place, 0])),
                         *_unfulfilled(texts[0], beginnings[row], wanted[row])]
                done[row] = Translation(lines[row], texts, scores and scores[place][:count], int(found.calls[place]),
                                        "; ".join(filter(None, notes)) or None)
        return [done[row] for row in range(len(lines))]


def _paired(lines: Iterable[str], prefixes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The lines with their prefixes.

    Raises:
        PipelineError: one of the two ends before the other.
    """
    for number, (line, prefix) in enumerate(zip_longest(lines, prefixes), start=1):
        if line is None or prefix is None:
            raise PipelineError(f"prefixes: there is no {'prefix' if prefix is None else 'line'} {number}; give one "
                                "prefix per line, empty where nothing is forced")
        yield line, prefix


@dataclass(frozen=True)
class _FunctionDecoder:
    """A decoder in Python, which nothing can be demanded of; see `ForcedDecoder`."""

    search: Search
    limit: LengthLimit
    quantization: str

    def __call__(self, model: Any, source: Tensor, prefixes: Prefixes = (), terms: Terms = ()) -> Hypotheses:
        self.check(model, prefixes=any(prefixes), terms=any(terms))
        return self.search(open_engine(in_format(model, self.quantization)), source, self.limit)

    def check(self, model: Any, *, prefixes: bool = False, terms: bool = False) -> None:
        if prefixes or terms:
            raise PipelineError("a decoder that is a function takes no prefixes and no glossary; name a decoder")


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
