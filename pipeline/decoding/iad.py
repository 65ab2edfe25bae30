"""Input-guided Aggressive Decoding (Ge et al. 2022, Algorithm 1): what comes next is copied from the source.

For tasks whose output is mostly their input, such as the correction of grammar. Behind the start symbol the whole
source is proposed; later, what follows the place in the source where the output's last tokens occur, if that place is
unique.

What the paper leaves open, chosen here: how long such a suffix may be. The shortest unique one decides; `shortest` and
`longest` narrow the choice. The end symbol is not proposed, because the verifier says it anyhow behind the last token.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pipeline.checks import Checked, Natural, Positive
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance, Bools, Ints, Prefix
from pipeline.decoding.protocol import Model
from pipeline.decoding.verify import verify
from pipeline.engine.sentence import Sentence
from pipeline.errors import PipelineError
from pipeline.vocabulary import BOS, EOS, PAD


@dataclass(frozen=True)
class Settings(Checked):
    """Input-guided Aggressive Decoding."""

    shortest: Positive = 1
    """Fewest tokens of a suffix that must occur in the source (the paper's q + 1)."""
    longest: Positive = 8
    """Most tokens that may decide between several places where the suffix occurs."""
    block: Natural = 0
    """k, most tokens to propose; 0: all that are left of the source."""
    acceptance: Acceptance = field(default_factory=Acceptance)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest > self.longest:
            raise PipelineError(f"shortest: {self.shortest} must not exceed longest, {self.longest}")


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate with drafts that are copied from the source; see `verify` for what comes back.

    Source and target must share a vocabulary, or what is copied means something else (`Params.decoder` checks it).
    """
    return verify(model, InputCopy(source, settings), source, model.encode(source), limit, settings.acceptance)


class InputCopy:
    """Proposes what follows the unique place of the source at which the prefix's last tokens occur."""

    def __init__(self, source: Tensor, settings: Settings) -> None:
        self._settings, self._device = settings, source.device
        # The start symbol in front, like the prefix, and no end symbol.
        tokens = source.masked_fill(source == EOS, PAD).cpu().numpy()
        self._source = np.pad(tokens, ((0, 0), (1, 0)), constant_values=BOS)

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        room = min(room, self._settings.block or room)
        place, found = self._match(prefix)
        columns = place[:, None] + np.arange(1, room + 1)
        last = self._source.shape[1] - 1
        inside = found[:, None] & (columns <= last)
        draft = np.where(inside, np.take_along_axis(self._source, np.minimum(columns, last), 1), PAD)
        return torch.from_numpy(draft[:, (draft != PAD).any(0)]).to(self._device)  # padding is behind

    def in_one_call(self, sentence: Sentence) -> int | None:
        source, settings = self._source[0], self._settings
        block = min(settings.block or len(source), len(source) - 1)
        return sentence.copy(source, settings.shortest, settings.longest, block)

    def select(self, rows: Tensor) -> None:
        self._source = self._source[rows.cpu().numpy()]

    def calls(self, rounds: Tensor) -> Tensor:
        return torch.zeros_like(rounds)

    def _match(self, prefix: Prefix) -> tuple[Ints, Bools]:
        """Where in the source the longest suffix of a prefix ends, (R,), and whether it does so there alone, (R,)."""
        places = self._source.shape[1]
        common = np.zeros((len(self._source), places), np.int64)
        going = self._source != PAD
        for back in range(min(self._settings.longest, prefix.longest, places)):
            # Whether the token so far back stands so far before each place, and all behind it stand behind it.
            at = prefix.counts - 1 - back
            token = np.where(at >= 0, prefix.words[np.arange(len(at)), at], PAD)
            going[:, back:] &= self._source[:, :places - back] == token[:, None]
            going[:, :back] = False
            if not going.any():
                break
            common += going
        place = common.argmax(1)
        longest = common[np.arange(len(place)), place]
        enough = (longest >= self._settings.shortest) | (prefix.counts == 1)  # the start symbol always decides
        return place, enough & ((common == longest[:, None]).sum(1) == 1)
