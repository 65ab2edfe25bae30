"""Input-guided Aggressive Decoding (Ge et al. 2022, Algorithm 1): what comes next is copied from the source.

For tasks whose output is mostly their input, such as the correction of grammar. Behind the start symbol the whole
source is proposed; later, what follows the place in the source where the output's last tokens occur, if that place is
unique.

What the paper leaves open, chosen here: how long such a suffix may be. The shortest unique one decides; `shortest` and
`longest` narrow the choice. The end symbol is not proposed, because the verifier says it anyhow behind the last token.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.decoding.verify import Acceptance, Prefix, verify
from pipeline.errors import PipelineError
from pipeline.vocabulary import BOS, EOS, PAD


@dataclass(frozen=True)
class Settings:
    """Input-guided Aggressive Decoding."""

    shortest: int = 1
    """Fewest tokens of a suffix that must occur in the source (the paper's q + 1)."""
    longest: int = 8
    """Most tokens that may decide between several places where the suffix occurs."""
    block: int = 0
    """k, most tokens to propose; 0: all that are left of the source."""
    acceptance: Acceptance = field(default_factory=Acceptance)

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise PipelineError(f"shortest: {self.shortest} and longest: {self.longest} must satisfy "
                                "1 <= shortest <= longest")
        if self.block < 0:
            raise PipelineError(f"block: {self.block} must be at least 1, or 0 for no limit")


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate with drafts that are copied from the source; see `verify` for what comes back.

    Raises:
        PipelineError: source and target have vocabularies of their own (what is copied would mean something else).
    """
    return verify(model, InputCopy(source, settings), source, model.encode(source), limit, settings.acceptance)


class InputCopy:
    """Proposes what follows the unique place of the source at which the prefix's last tokens occur."""

    def __init__(self, source: Tensor, settings: Settings) -> None:
        self._settings = settings
        # The start symbol in front, like the prefix, and no end symbol.
        self._source = F.pad(source.masked_fill(source == EOS, PAD), (1, 0), value=BOS)

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        room = min(room, self._settings.block or room)
        place, found = self._match(prefix)
        columns = place.unsqueeze(1) + torch.arange(1, room + 1, device=place.device)
        inside = found.unsqueeze(1) & (columns < self._source.shape[1])
        draft = self._source.gather(1, columns.clamp(max=self._source.shape[1] - 1)).masked_fill(~inside, PAD)
        return draft[:, :int((draft != PAD).sum(1).max())]

    def select(self, rows: Tensor) -> None:
        self._source = self._source[rows]

    def calls(self, rounds: Tensor) -> Tensor:
        return torch.zeros_like(rounds)

    def _match(self, prefix: Prefix) -> tuple[Tensor, Tensor]:
        """Where in the source the longest suffix of a prefix ends, (R,), and whether it does so there alone, (R,)."""
        span = min(self._settings.longest, prefix.longest, self._source.shape[1])
        # Of the last tokens, latest first, where in the source each occurs, shifted to where the suffix would end.
        back = prefix.lengths.unsqueeze(1) - 1 - torch.arange(span, device=self._source.device)
        last = prefix.tokens.gather(1, back.clamp(min=0)).masked_fill(back < 0, PAD - 1)
        windows = F.pad(self._source, (span - 1, 0), value=PAD - 2).unfold(1, span, 1).flip(2)
        common = (windows == last.unsqueeze(1)).long().cumprod(2).sum(2).masked_fill(self._source == PAD, 0)
        longest, place = common.max(1)
        return place, (longest >= self._settings.shortest) & ((common == longest.unsqueeze(1)).sum(1) == 1)
