"""How long a run's training will take on this machine, measured before it begins."""

import time
from pathlib import Path

import torch
import torch.nn.functional as F

from pipeline import layout
from pipeline.model.checkpoint import CONFIG
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.transformer import Transformer
from pipeline.params import TEACHER, Params

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
    measured: dict[tuple[NetworkSettings, int], float] = {}
    total = 0.0
    for name in families:
        family = params.family(name)
        key = family.network, family.data.batch_tokens
        if key not in measured:
            measured[key] = seconds_a_step(*key, params.bpe.vocabulary)
        total += family.training.steps * measured[key]
    return total


def seconds_a_step(settings: NetworkSettings, batch_tokens: int, vocabulary: int) -> float:
    """The seconds of one training step on random ids, the quickest of a few."""
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
    return best
