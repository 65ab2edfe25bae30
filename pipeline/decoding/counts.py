"""The count model alone: the best candidate of every position (Deng and Rush 2021, K = 1 of their Table 2).

There is no end symbol to score, so a translation has the predicted length, cut at the limit.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import LatticeModel
from pipeline.vocabulary import PAD

KIND = "lattice"
"""Of the models that it searches."""


@dataclass(frozen=True)
class Settings:
    """Nothing to set."""


@torch.inference_mode()
def search(model: LatticeModel, source: Tensor, limit: LengthLimit, settings: Settings) -> Hypotheses:
    """Translate by look-up.

    Args:
        model: a count model; its scorer is not asked.
        source: (B, S) ids, padded with PAD behind.
        limit: the longest output.
        settings: none.

    Returns:
        Hypotheses that all have `ended`, without a call. Scores are sums of the words' log P(y | x, t). There is no
        hypothesis where a position has no candidate.
    """
    lengths = torch.minimum(model.length(source), limit.words(source)).unsqueeze(1)
    N = int(lengths.max()) if len(source) else 1
    words, certainty = (one[:, :, 0] for one in model.candidates(source, N, 1))
    padding = torch.arange(N, device=source.device) >= lengths
    scores = certainty.masked_fill(padding, 0).sum(1, keepdim=True)
    possible = scores > -torch.inf
    tokens = words.masked_fill(padding | ~possible, PAD).unsqueeze(1)
    return Hypotheses(tokens, lengths * possible, scores, possible, torch.zeros_like(lengths[:, 0]))
