"""Input-guided Aggressive Decoding (Ge et al. 2022, Algorithm 1): what comes next is copied from the source.

It is for tasks whose output is mostly their input, such as grammatical error correction. After the start symbol the
whole source is proposed; later, what follows the place in the source where the output's last tokens occur, if that
place is unique.

The paper leaves open how long such a suffix may be. Here the shortest unique one decides; `shortest` and `longest`
narrow the choice. The end symbol is not proposed, because the verifier predicts it anyway after the last token.
"""

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from pipeline.checks import Checked, Natural, Positive, Refused
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance, Prefix
from pipeline.decoding.protocol import Model
from pipeline.decoding.traits import Traits
from pipeline.decoding.verify import Drafter, verify
from pipeline.engine.sentence import Found, Sentence
from pipeline.vocabulary import BOS, EOS, PAD

TRAITS = Traits(width=1, in_one_call=True)


@dataclass(frozen=True)
class Settings(Checked):
    """Input-guided Aggressive Decoding."""

    shortest: Positive = 1
    """Fewest tokens of a suffix that must occur in the source (the paper's q + 1)."""
    longest: Positive = 8
    """Most tokens that may decide between several places where the suffix occurs."""
    block: Natural = 0
    """k, most tokens to propose; 0: the whole rest of the source."""
    acceptance: Acceptance = field(default_factory=Acceptance)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest > self.longest:
            raise Refused(f"shortest: {self.shortest} must not exceed longest, {self.longest}")


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate with drafts that are copied from the source; see `verify` for the result.

    Source and target must share a vocabulary, or what is copied means something else (`Params.decoder` checks it).
    """
    return verify(model, InputCopy(source, settings), source, model.encode(source), limit, settings.acceptance)


class InputCopy(Drafter):
    """Proposes what follows the unique place of the source at which the prefix's last tokens occur."""

    def __init__(self, source: Tensor, settings: Settings) -> None:
        tokens = source.masked_fill(source == EOS, PAD).cpu().numpy()
        # The start symbol in front, like the prefix, and no end symbol.
        self._sources = [np.append(BOS, row[row != PAD]) for row in tokens]
        self.block, self._settings = min(settings.block or source.shape[1], source.shape[1]), settings

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        from pipeline.engine.drafts import copy_source  # numba: half a second that no other search needs
        shortest, longest = self._settings.shortest, self._settings.longest
        return prefix.draft_rows(room, lambda row, draft: copy_source(
            prefix.words[row, :prefix.counts[row]], self._sources[row], shortest, longest, draft))

    def in_one_call(self, sentence: Sentence) -> Found | None:
        return sentence.copy(self._sources[0], self._settings.shortest, self._settings.longest, self.block)

    def select(self, rows: Tensor) -> None:
        self._sources = [self._sources[row] for row in rows.tolist()]
