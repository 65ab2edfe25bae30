"""Generalized Aggressive Decoding (Ge et al. 2022, section 3.2): a network drafts the next k tokens all at once.

With an `acceptance` of beta > 1 and tau > 0 it is GAD++ (section 3.2.3).
"""

from dataclasses import dataclass, field

from torch import Tensor

from pipeline.checks import Checked, Natural
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance, Prefix
from pipeline.decoding.protocol import DecoderState, DrafterModel
from pipeline.decoding.traits import Traits
from pipeline.decoding.verify import verify
from pipeline.engine.sentence import Found, Sentence

TRAITS = Traits(kind="drafter", verifies=True, in_one_call=True)


@dataclass(frozen=True)
class Settings(Checked):
    """Generalized Aggressive Decoding."""

    block: Natural = 0
    """k, tokens to draft; 0: as many as the drafter was trained for."""
    acceptance: Acceptance = field(default_factory=Acceptance)


def search(model: DrafterModel, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate as the drafter's verifier does, with drafts of a network; see `verify` for arguments and result."""
    memory = model.verifier.encode(source)
    state = model.start(model.draft_memory(source, memory))
    drafter = NetworkDrafter(model, state, settings.block or model.block)
    return verify(model.verifier, drafter, source, memory, limit, settings.acceptance)


class NetworkDrafter:
    """Proposes the best token of a network at each of the next k places."""

    def __init__(self, model: DrafterModel, state: DecoderState, block: int) -> None:
        self._model, self._state, self.block = model, state, block

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        if room < 1:
            return prefix.tokens[:, :0]
        states = self._model.propose(prefix.tokens, prefix.lengths, room, self._state)
        return self._model.draft_tokens(states, prefix.last.squeeze(1), verified=True)

    def in_one_call(self, sentence: Sentence) -> Found | None:
        return sentence.blocks(self._model, self._state, self.block)

    def select(self, rows: Tensor) -> None:
        self._state.select(rows)

    def calls(self, rounds: Tensor) -> Tensor:
        return rounds
