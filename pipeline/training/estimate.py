"""How long a run's training will take on this machine, measured before it begins."""

import time
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F

from pipeline import layout
from pipeline.model.checkpoint import CONFIG
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.transformer import Transformer
from pipeline.params import Params
from pipeline.systems import TEACHER

_PIECES = 16
"""Of a sentence; the cost of a step depends on the tokens of its batch far more than on their lengths."""
_STEPS = 5


def untrained(params: Params, folder: Path) -> list[str]:
    """The teacher and students of which the folder has no checkpoint."""
    return [name for name in (TEACHER, *params.starts) if not (folder / layout.checkpoint(name) / CONFIG).exists()]


def training_seconds(params: Params, families: list[str]) -> float:
    """The seconds that these families' steps will take, from a few steps of each network that they use.

    Validation, start-up, decoding and everything else come on top.
    """
    return sum(family_seconds(params, families).values())


def family_seconds(params: Params, families: list[str]) -> dict[str, float]:
    """The seconds that each family's steps will take by itself; see `training_seconds`."""
    measured = cache(seconds_a_step)
    return {name: family.training.steps * measured(family.network, family.data.batch_tokens, params.bpe.vocabulary,
                                                   family.training.threads)
            for name, family in ((name, params.family(name)) for name in families)}


def seconds_a_step(settings: NetworkSettings, batch_tokens: int, vocabulary: int, threads: int = 1) -> float:
    """The seconds of one training step on random ids with so many CPU threads, the quickest of a few."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    network = Transformer(settings, vocabulary, vocabulary, make_order(OrderSettings("left_to_right"))).train()
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    ids = torch.randint(7, vocabulary, (max(1, batch_tokens // _PIECES), _PIECES))
    best = float("inf")
    for _ in range(_STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(network(ids, ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        best = min(best, time.perf_counter() - start)
    torch.set_num_threads(before)
    return best
