"""Blockwise parallel decoding (Stern et al. 2018): heads on the verifier predict the words after its next one.

The call that verifies a block also yields the state that the next block is guessed from, so an iteration is one pass
over the network (their combined scoring and proposal model). Before the first call there is no state, and nothing is
drafted.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.checks import Checked, Natural
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance, Prefix
from pipeline.decoding.protocol import HeadsModel
from pipeline.decoding.traits import Traits
from pipeline.decoding.verify import Drafter, verify
from pipeline.engine.sentence import Found, Sentence
from pipeline.engine.waiting import on_device
from pipeline.errors import PipelineError

TRAITS = Traits(kind="heads", verifies=True, in_one_call=True)


@dataclass(frozen=True)
class Settings(Checked):
    """Blockwise parallel decoding."""

    block: Natural = 0
    """k, the most tokens that a call accepts, one more than are drafted; 0: as many as the model has heads for."""
    acceptance: Acceptance = field(default_factory=Acceptance)


def search(model: HeadsModel, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate as the model does without its heads; see `verify` for arguments and result.

    Raises:
        PipelineError: the block needs more heads than the model has.
    """
    block = settings.block or model.block
    if block > model.block:
        raise PipelineError(f"block: {block} needs {block - 1} heads, but the model has {model.block - 1}; lower it, "
                            "or train the family with a larger drafting.block")
    memory = model.verifier.encode(source)
    return verify(model.verifier, HeadsDrafter(model, block - 1), source, memory, limit, settings.acceptance)


class HeadsDrafter(Drafter):
    """Proposes the best token of each head, which read the state that predicted a row's last token."""

    def __init__(self, model: HeadsModel, tokens: int) -> None:
        self._model, self.block = model, tokens

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        if prefix.hidden is None or room < 1:
            return prefix.tokens[:, :0]
        last = on_device(prefix.added - 1, prefix.hidden.device)
        rows = torch.arange(len(last), device=last.device)
        states = self._model.head_states(prefix.hidden[rows, last], room)
        return self._model.draft_tokens(states, prefix.last.squeeze(1), verified=True)

    def in_one_call(self, sentence: Sentence) -> Found | None:
        return sentence.heads(self._model, self.block)

    def select(self, rows: Tensor) -> None:
        """Nothing to do: the states are the prefix's."""
