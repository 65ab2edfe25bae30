"""Parallel Jacobi decoding that is told the translation's length, as in the paper's experiments. For comparison only.

Santilli et al. (2023) measured with blocks that end where the translation does, whose length was found outside of their
clock. Here greedy search finds it, and the time of that is reported as not to be charged (`Hypotheses.unbilled`). No
user has such an oracle; what it saves is the difference to `jacobi.py`.
"""

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.jacobi import Blocks, LastIterate
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import Model
from pipeline.decoding.verify import verify


@dataclass(frozen=True)
class Settings(Blocks):
    """Blocks, none of which goes beyond the end."""


def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Greedy search's translation, of known length; see `verify` for what comes back.

    Args:
        model: an ordered model of one word a step.
        source: (B, S) ids, padded with PAD behind.
        limit: the longest output.
        settings: blocks.
    """
    start = time.perf_counter()
    lengths = greedy.search(model, source, limit).lengths[:, 0] + 1
    if source.is_cuda:
        torch.cuda.synchronize(source.device)
    unbilled = time.perf_counter() - start
    found = verify(model, LastIterate(lengths, source[:, :0], settings, told=True), source, model.encode(source), limit)
    return replace(found, unbilled=unbilled)

