"""Drafts from a lattice: the best continuation after the last accepted word, for a verifier to judge.

The lattice is scored once and its best continuations are found once, from every candidate of every position; a draft is
then read off. The end symbol is not proposed, because the verifier predicts it anyway after the last word.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pipeline.checks import Checked, Natural, Positive
from pipeline.decoding.chain import Edges
from pipeline.decoding.counts_gad import verifier_of
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.lattice import windowed
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance, Prefix
from pipeline.decoding.protocol import LatticeModel
from pipeline.decoding.traits import Traits
from pipeline.decoding.verify import verify
from pipeline.engine.sentence import Found, Sentence
from pipeline.model.state import Ints

TRAITS = Traits(kind="lattice", verifies=True, in_one_call=True)


@dataclass(frozen=True)
class Settings(Checked):
    """Draft and verify by a lattice."""

    candidates: Positive = 16
    """K, the most words per position."""
    window: Natural = 3
    """D, by how much a path may be shorter or longer than predicted."""
    block: Positive = 5
    """k, tokens to draft."""
    acceptance: Acceptance = field(default_factory=Acceptance)


@torch.inference_mode()
def search(model: LatticeModel, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate as the lattice's verifier does; see `verify` for arguments and result.

    Raises:
        PipelineError: the model has no verifier.
    """
    verifier = verifier_of(model)
    words, edges, _ = windowed(model, source, limit, settings.candidates, settings.window)
    drafter = LatticeDrafter(words, edges, settings.block)
    return verify(verifier, drafter, source, verifier.encode(source), limit, settings.acceptance)


class LatticeDrafter:
    """Proposes the words of the best continuation; compiled, on the CPU wherever the networks are."""

    def __init__(self, words: Tensor, edges: Edges, block: int) -> None:
        """Args:
            words: (B, N, K) candidates, PAD where there is none.
            edges: their scores, impossible from and to PAD.
            block: k.
        """
        from pipeline.engine.continuation import continuations  # numba: half a second to import
        (B, N, K), self.block = words.shape, block
        self._words = words.cpu().numpy()
        self._following, self._entries = np.empty((B, N, K), np.int64), np.empty((B, N), np.int64)
        first, inner, end = (scores.cpu().contiguous().numpy() for scores in edges)
        continuations(first, inner, end, self._following, self._entries)

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        from pipeline.engine.continuation import read_on
        words, counts = prefix.words, prefix.counts
        return prefix.draft_rows(room, lambda row, draft: read_on(
            *self._lattice(row), counts[row] - 2, words[row, counts[row] - 1], draft))

    def in_one_call(self, sentence: Sentence) -> Found | None:
        return sentence.lattice_paths(*self._lattice(0), self.block)

    def _lattice(self, row: int) -> tuple[Ints, Ints, Ints]:
        """The words of a row, what follows them, and where positions are entered."""
        return self._words[row], self._following[row], self._entries[row]

    def select(self, rows: Tensor) -> None:
        kept = rows.numpy()
        self._words, self._following, self._entries = self._words[kept], self._following[kept], self._entries[kept]

    def calls(self, rounds: Tensor) -> Tensor:
        return torch.ones_like(rounds)
