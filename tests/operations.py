"""The operations that torch counts, which the formulas of the Jacobi analyses (`flops.py`) must give as well."""

import copy
from collections.abc import Callable
from typing import Any

from pipeline.engine.door import use_engine
from pipeline.evaluation.analyses.jacobi.flops import seen_by_torch


def counted(network: Any, work: Callable[[Any], object]) -> int:
    """The operations that torch counts while `work` uses a copy of a network.

    Torch counts its own calls, and a compiled step is none, so `work` is done by torch. Tables that the network
    computes once are counted as well (`SelfAttention.single_key`).
    """
    plain = copy.deepcopy(network)
    plain.clear_caches()
    if not network.training:  # the counter would ask for the gradients of module outputs, and search has none
        plain.requires_grad_(False)
    with use_engine("torch"):
        return seen_by_torch(lambda: work(plain))
