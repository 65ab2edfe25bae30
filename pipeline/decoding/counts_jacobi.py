"""Parallel Jacobi decoding that starts from the count model's words and length.

The Jacobi paper (Santilli et al. 2023) starts from padding and does not examine other starts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.decoding.counts_gad import most_frequent, verifier_of
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.jacobi import Blocks, LastIterate
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import LatticeModel
from pipeline.decoding.traits import Traits
from pipeline.decoding.verify import verify

TRAITS = Traits(kind="lattice", verifies=True, in_one_call=True)


@dataclass(frozen=True)
class Settings(Blocks):
    """The blocks of Jacobi decoding."""


@torch.inference_mode()
def search(model: LatticeModel, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Translate as the lattice's verifier does, without the scorer; see `verify` for arguments and result.

    Raises:
        PipelineError: the model has no verifier.
    """
    verifier = verifier_of(model)
    words, lengths = most_frequent(model, source)
    return verify(verifier, LastIterate(lengths + 1, words, settings), source, verifier.encode(source), limit)
