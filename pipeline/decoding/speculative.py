"""Speculative decoding (Leviathan et al. 2023; Chen et al. 2023), greedy: a small model predicts the next k tokens.

The drafters of gad predict all tokens of a block at once, because a step costs a large model's latency whatever it
computes. Here a step of one layer takes a fraction of the verifier's time, and tokens that depend on the ones before
them are accepted more often.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.checks import Checked, Positive
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
    """Speculative decoding with a small model."""

    block: Positive = 4
    """k, tokens to draft."""
    acceptance: Acceptance = field(default_factory=Acceptance)


def search(model: DrafterModel, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate as the drafter's verifier does, with what the drafter proposes; see `verify` for arguments and result.

    The drafter is best trained for blocks of one token.
    """
    memory = model.verifier.encode(source)
    state = model.start(model.draft_memory(source, memory))
    return verify(model.verifier, SmallModel(model, state, settings.block), source, memory, limit,
                  settings.acceptance)


class SmallModel:
    """Proposes a small model's own greedy continuation."""

    def __init__(self, model: DrafterModel, state: DecoderState, block: int) -> None:
        self._model, self._state, self.block = model, state, block
        self._calls = [0]  # of its network, after every round

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        draft = self._model.continue_greedily(prefix.tokens, prefix.lengths, room, self._state)
        self._calls.append(self._calls[-1] + draft.shape[1])
        return draft

    def in_one_call(self, sentence: Sentence) -> Found | None:
        return sentence.small_model(self._model, self._state, self.block)

    def select(self, rows: Tensor) -> None:
        self._state.select(rows)

    def calls(self, rounds: Tensor) -> Tensor:
        return torch.tensor(self._calls, device=rounds.device)[rounds]
