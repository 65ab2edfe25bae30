"""What single precision is forgiven: two words that are as good as equally probable."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

TIE = 1e-4
"""Two words whose log-probabilities differ by less are as good as equal."""


@torch.no_grad()
def gap(network: Transformer, source: Tensor, mine: Sequence[int], theirs: Sequence[int]) -> float:
    """By how much log-probabilities differ at the first tokens, as generated, that two outputs do not share."""
    at = next(place for place, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other)
    logits = network(source[source != PAD].unsqueeze(0), torch.tensor([mine[:at + 1]]))[0, at]
    return abs((logits[mine[at]] - logits[theirs[at]]).item())
