"""Drafts from counts: the most frequent word of every position, looked up once, for a verifier to judge.

Nothing is drafted after the predicted length, where the verifier goes on word by word.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.checks import Checked, Positive
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance, Prefix
from pipeline.decoding.protocol import LatticeModel, Model
from pipeline.decoding.traits import Traits
from pipeline.decoding.verify import Drafter, verify
from pipeline.engine.sentence import Found, Sentence
from pipeline.errors import PipelineError
from pipeline.vocabulary import PAD

TRAITS = Traits(kind="lattice", verifies=True, in_one_call=True)


@dataclass(frozen=True)
class Settings(Checked):
    """Draft and verify by counts."""

    block: Positive = 5
    """k, tokens to draft."""
    acceptance: Acceptance = field(default_factory=Acceptance)


def search(model: LatticeModel, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate as the lattice's verifier does; see `verify` for arguments and result.

    The model's scorer is not used.

    Raises:
        PipelineError: the model has no verifier.
    """
    verifier = verifier_of(model)
    words, _ = most_frequent(model, source)
    return verify(verifier, WordsInPlace(words, settings.block), source, verifier.encode(source), limit,
                  settings.acceptance)


def most_frequent(model: LatticeModel, source: Tensor) -> tuple[Tensor, Tensor]:
    """The most frequent word of every position, PAD after the predicted length, and that length: (B, N) and (B,)."""
    lengths = model.length(source)
    words, _ = model.candidates(source, int(lengths.max()) if len(source) else 1, 1)
    outside = torch.arange(words.shape[1], device=source.device) >= lengths.unsqueeze(1)
    return words.squeeze(2).masked_fill(outside, PAD), lengths


def verifier_of(model: LatticeModel) -> Model:
    """The model that a lattice drafts for.

    Raises:
        PipelineError: it has none.
    """
    if model.verifier is None:
        raise PipelineError("verifier: this lattice has none to draft for; name one in its family "
                            "(`drafting: {verifier: ar}`) and train it again")
    return model.verifier


class WordsInPlace(Drafter):
    """Proposes the expected words of the next k positions, whatever the prefix is."""

    def __init__(self, words: Tensor, block: int) -> None:
        """Args:
            words: (B, N), PAD where none is expected.
            block: k.
        """
        self._words, self.block = words.cpu().numpy(), block

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        from pipeline.engine.drafts import words_in_place  # numba: half a second that no other search needs
        return prefix.draft_rows(
            room, lambda row, draft: words_in_place(self._words[row], prefix.counts[row] - 1, draft))

    def in_one_call(self, sentence: Sentence) -> Found | None:
        return sentence.words_in_place(self._words[0], self.block)

    def select(self, rows: Tensor) -> None:
        self._words = self._words[rows.numpy()]
