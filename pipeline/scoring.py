"""Scores given translations by a model that generates them token by token."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self, cast

import numpy as np
import torch

from pipeline.corpus.batches import by_tokens
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.decoding.protocol import is_ordered
from pipeline.device import pick_device
from pipeline.errors import PipelineError
from pipeline.lines import normalise
from pipeline.text_model import TextModel, open_folder
from pipeline.vocabulary import PAD


class PairLine(NamedTuple):
    """A translation to be scored."""

    name: str
    """Its file and line, for error messages."""
    source: str
    translation: str


class Scorer:
    """Log-probabilities of given translations."""

    def __init__(self, model: TextModel, device: str = "auto", batch_tokens: int = 512) -> None:
        """Args:
            model: of a family or of a model folder; is moved to the device.
            device: cpu, cuda or auto.
            batch_tokens: tokens of the longer sides of the pairs that are scored together, padding included, or one
                pair that has more.

        Raises:
            PipelineError: the model is of a kind that gives translations no probability.
        """
        if not is_ordered(model.network):
            raise PipelineError(f"a {model.network.kind} model gives no probability to a translation; choose one of an "
                                "ordered family")
        self.device = torch.device(pick_device(device))
        self.network, self.tokenizer = model.network.to(self.device), cast(Tokenizer, model.text)
        self.longest, self.unicode, self._batch_tokens = model.longest, model.unicode, batch_tokens

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str = "auto", batch_tokens: int = 512) -> Self:
        """A scorer by the model of a model folder; see `Translator.from_pretrained`."""
        return cls(open_folder(Path(folder))[0], device, batch_tokens)

    def score(self, source: str, translation: str) -> tuple[float, int]:
        """The score of one pair, as of a call."""
        [found] = self([PairLine("pair", source, translation)])
        return found

    def check(self, pair: PairLine) -> None:
        """Check that a pair has a score.

        Raises:
            PipelineError: its source or its translation is longer than the model's limit.
        """
        self._encoded([pair])

    def __call__(self, pairs: Sequence[PairLine]) -> list[tuple[float, int]]:
        """Score pairs, those of similar length together.

        Returns:
            Per pair, in their order, the summed log-probability of its slots, end symbols included, and their number.

        Raises:
            PipelineError: as of `check`.
        """
        sources, targets = self._encoded(pairs)
        lengths = np.array([1 + max(map(len, sides)) for sides in zip(sources, targets, strict=True)], np.int64)
        longest_first, found = np.argsort(-lengths, kind="stable"), dict[int, tuple[float, int]]()
        for together in by_tokens(lengths[longest_first], self._batch_tokens):
            rows = longest_first[together].tolist()
            scores = self._scored([sources[row] for row in rows], [targets[row] for row in rows])
            found |= zip(rows, scores, strict=True)
        return [found[row] for row in range(len(pairs))]

    def _encoded(self, pairs: Sequence[PairLine]) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of sources and of translations, all of which have been checked."""
        sources = self.tokenizer.encode_source([normalise(pair.source, self.unicode) for pair in pairs])
        targets = self.tokenizer.encode_target([normalise(pair.translation, self.unicode) for pair in pairs])
        for pair, left, right in zip(pairs, sources, targets, strict=True):
            for what, ids in (("source", left), ("translation", right)):
                if len(ids) >= self.longest:
                    raise PipelineError(f"{pair.name}: a {what} of {len(ids)} pieces is longer than the model's "
                                        f"{self.longest - 1}; split the pair, or leave it out")
        return sources, targets

    @torch.inference_mode()
    def _scored(self, sources: list[list[int]], targets: list[list[int]]) -> list[tuple[float, int]]:
        """What a call returns, of the ids of pairs that make one batch."""
        lengths = torch.tensor([len(target) for target in targets])
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(target, dtype=torch.long) for target in targets],
                                                 batch_first=True, padding_value=PAD)
        source = pad_sources(sources, self.longest).to(self.device)
        arranged = self.network.order.arrange(padded, lengths).to(self.device)
        log_probabilities = self.network(source, arranged).log_softmax(2).gather(2, arranged.unsqueeze(2)).squeeze(2)
        scored = arranged != PAD
        sums = (log_probabilities * scored).sum(1)
        return list(zip(sums.tolist(), scored.sum(1).tolist(), strict=True))
