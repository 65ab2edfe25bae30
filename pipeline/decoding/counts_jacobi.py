"""Parallel Jacobi decoding that starts from counts: the most frequent word of every position, and the expected length.

The Jacobi paper (Santilli et al. 2023) starts from padding and leaves other starts open.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.decoding.counts_gad import foreseen, verifier_of
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.jacobi import Blocks, LastIterate
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import LatticeModel
from pipeline.decoding.verify import verify

KIND = "lattice"
"""Of the models that it searches."""


@dataclass(frozen=True)
class Settings(Blocks):
    """Blocks, which start from counts."""


@torch.inference_mode()
def search(model: LatticeModel, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate as the lattice's verifier does; see `verify` for what comes back.

    Args:
        model: a count model with a verifier; its scorer is not asked.
        source: (B, S) ids, padded with PAD behind.
        limit: the longest output.
        settings: blocks.

    Raises:
        PipelineError: the model has no verifier.
    """
    verifier = verifier_of(model)
    words, lengths = foreseen(model, source)
    return verify(verifier, LastIterate(lengths + 1, words, settings), source, verifier.encode(source), limit)
