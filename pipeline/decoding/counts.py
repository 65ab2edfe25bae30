"""Search with the count model only: the best candidate of every position (Deng and Rush 2021, Table 2, K = 1).

No end symbol is scored, so a translation has the predicted length, or the limit if that is shorter.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import LatticeModel
from pipeline.decoding.traits import Traits
from pipeline.vocabulary import PAD

TRAITS = Traits(kind="lattice")


@dataclass(frozen=True)
class Settings:
    """Nothing to set."""


@torch.inference_mode()
def search(model: LatticeModel, source: Tensor, limit: LengthLimit, settings: Settings) -> Hypotheses:
    """Translate by look-up, without the scorer.

    Returns:
        Hypotheses with 0 calls, of which those that have `ended` are as long as predicted. Scores are sums of
        the words' log P(y | x, t). A sentence with a position without candidates has no hypothesis.
    """
    predicted = model.length(source).unsqueeze(1)
    lengths = torch.minimum(predicted, limit.words(source).unsqueeze(1))
    N = int(lengths.max()) if len(source) else 1
    words, certainty = (one[:, :, 0] for one in model.candidates(source, N, 1))
    padding = torch.arange(N, device=source.device) >= lengths
    scores = certainty.masked_fill(padding, 0).sum(1, keepdim=True)
    possible = scores > -torch.inf
    tokens = words.masked_fill(padding | ~possible, PAD).unsqueeze(1)
    return Hypotheses(tokens, lengths * possible, scores, possible & (lengths == predicted),
                      torch.zeros_like(lengths[:, 0]))
