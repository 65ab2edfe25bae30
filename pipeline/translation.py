"""Text in, text out: a trained family under one decoder, as a user of translations sees it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import pad_sources
from pipeline.corpus.filtering import normalise
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.model.checkpoint import load_checkpoint
from pipeline.params import Params
from pipeline.vocabulary import PAD

_PLACEHOLDER = re.compile(r"\{[^{}\s]+\}|%\([^()\s]+\)[a-z]|%[sd]")


@dataclass(frozen=True)
class Translation:
    """One source line."""

    source: str
    hypotheses: list[str]
    """Best first; one empty string for a line without words."""
    scores: list[float]
    """Of the hypotheses; length-penalised log-probabilities."""
    calls: int
    """Decoder calls."""
    warning: str | None = None
    """What the reader should know: the source was cut, or the translation was."""


class Trained:
    """A family's network and vocabulary, on a device."""

    def __init__(self, params: Params, family: str, device: str) -> None:
        self.tokenizer = Tokenizer.load(layout.BPE)
        self.network, _ = load_checkpoint(layout.checkpoint(family), self.tokenizer.digest,
                                          params.family(family).order)
        self.longest = self.network.settings.max_length
        self.unicode = params.corpus.filters.unicode
        self.device = torch.device(pick_device(device))
        self.network.to(self.device)

    def warning(self, pieces: int, ended: bool) -> str | None:
        """What the reader of a translation should know, of how many source pieces there are and whether it ended."""
        if pieces >= self.longest:
            return f"source cut to the model's {self.longest - 1} pieces"
        return None if ended else "translation cut at the length limit"


class Translator(Trained):
    """Translates lines in bulk and returns them in their order, one for one."""

    def __init__(self, params: Params, family: str, decoder: str, *, nbest: int = 1, device: str = "auto",
                 batch_rows: int = 32) -> None:
        """Args:
            params: of the folder that holds data/bpe and checkpoints/.
            family, decoder: names in it.
            nbest: hypotheses a line.
            device: cpu, cuda or auto.
            batch_rows: sentences searched together.

        Raises:
            PipelineError: unknown names, no such checkpoint, or a decoder that has no n-best list.
        """
        block = dict(params.decoder(decoder))
        if nbest > 1:
            widest = block.get("beams", block.get("candidates", 1))
            if nbest > widest:
                raise PipelineError(f"--nbest: {nbest} needs a decoder with at least as many beams; {decoder!r} has "
                                    f"{widest}")
            block["nbest"] = nbest
        super().__init__(params, family, device)
        limit = LengthLimit(params.limit.ratio, params.limit.extra, self.longest - 1)
        self._decode = make_decoder(decoder, block, limit)
        self._batch_rows = batch_rows

    def __call__(self, lines: Iterable[str], ahead: int = 32) -> Iterator[Translation]:
        """Translate lines lazily.

        Args:
            lines: without line ends.
            ahead: batches to read ahead, so that sentences of like length can share one.
        """
        remaining = iter(lines)
        while chunk := list(islice(remaining, ahead * self._batch_rows)):
            yield from self._chunk(chunk)

    def _chunk(self, lines: list[str]) -> list[Translation]:
        encoded = self.tokenizer.encode_source([normalise(line, self.unicode) for line in lines])
        done = {row: Translation(line, [""], [0.0], 0)
                for row, (line, ids) in enumerate(zip(lines, encoded, strict=True)) if not ids}
        by_length = sorted((row for row in range(len(lines)) if row not in done), key=lambda row: -len(encoded[row]))
        for start in range(0, len(by_length), self._batch_rows):
            rows = by_length[start:start + self._batch_rows]
            source = pad_sources([encoded[row] for row in rows], self.longest).to(self.device)
            found = self._decode(self.network, source)
            words = [[hypothesis[:length] for hypothesis, length in zip(*both, strict=True)]
                     for both in zip(found.tokens.tolist(), found.lengths.tolist(), strict=True)]
            for place, row in enumerate(rows):
                scores = found.scores[place].tolist()
                real = [n for n, score in enumerate(scores) if score > -float("inf")]
                texts = self.tokenizer.decode_targets([words[place][n] for n in real])
                done[row] = Translation(lines[row], texts, [scores[n] for n in real], int(found.calls[place]),
                                        self.warning(len(encoded[row]), bool(found.ended[place, 0])))
        return [done[row] for row in range(len(lines))]


class Scorer(Trained):
    """Log-probabilities of given translations."""

    def __init__(self, params: Params, family: str, device: str = "auto") -> None:
        super().__init__(params, family, device)
        if self.network.kind != "ordered":
            raise PipelineError(f"--family: {family!r} is a {self.network.kind} model, which gives no probability to a "
                                "whole translation; choose an ordered family")

    @torch.inference_mode()
    def __call__(self, pairs: list[tuple[str, str]]) -> list[tuple[float, int]]:
        """Score (source, translation) pairs as one batch.

        Returns:
            Of each pair the summed log-probability of its slots, end symbols included, and their number.

        Raises:
            PipelineError: a translation is longer than the model's limit.
        """
        sources = self.tokenizer.encode_source([normalise(source, self.unicode) for source, _ in pairs])
        targets = self.tokenizer.encode_target([normalise(target, self.unicode) for _, target in pairs])
        for (_, text), target in zip(pairs, targets, strict=True):
            if len(target) >= self.longest:
                raise PipelineError(f"a translation of {len(target)} pieces is longer than the model's "
                                    f"{self.longest - 1}: {text[:40]}…; split it")
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
    """Placeholders such as {entity_name}, %(count)d or %s that the translation has fewer of than the source.

    >>> lost_placeholders("Turn {name} on at {time}", "{name} einschalten")
    ['{time}']
    """
    wanted, found = Counter(_PLACEHOLDER.findall(source)), Counter(_PLACEHOLDER.findall(translation))
    return sorted((wanted - found).elements())


def pick_device(name: str) -> str:
    """cpu or cuda for a user's cpu, cuda or auto.

    Raises:
        PipelineError: cuda is asked for and absent, or the name is unknown.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise PipelineError(f"device: {name!r} is unknown; choose cpu, cuda or auto")
    if name == "cuda" and not torch.cuda.is_available():
        raise PipelineError("device: cuda is not available on this machine; choose cpu or auto")
    return name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
