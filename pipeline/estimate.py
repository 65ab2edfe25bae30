"""Estimates the time of a run's training on this machine before it begins."""

import time
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.adamw import adamw

from pipeline.allocator import keep_freed_memory
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.transformer import Transformer
from pipeline.params import Params
from pipeline.schedule import length
from pipeline.systems import TEACHER
from pipeline.text_model import is_trained

_PIECES = 16
"""Tokens per sentence; the cost of a step depends far more on the tokens of its batch than on sentence lengths."""
_MOST = 2048
"""Tokens that are measured; a batch may have many times as many, and would take as many times as long."""
_EXACT = "32-true"
"""The precision in which every processor multiplies."""
_DEAR = 1.2
"""How many times as long as in that one a product may take."""
_STEPS, _SECONDS = 5, 3.0
"""The most steps, and the seconds after which none begins."""


def untrained(params: Params, folder: Path) -> list[str]:
    """The teacher and students that have no checkpoint in the folder."""
    return [name for name in (TEACHER, *params.starts) if not is_trained(name, folder)]


def training_time(params: Params, families: list[str], jobs: int) -> float:
    """The seconds that these families' training steps will take with `jobs` students at once."""
    seconds = family_seconds(params, families)
    students = [name for name in families if name != TEACHER]
    after = {name: [start for start in students if start == params.starts[name]] for name in students}
    return seconds.get(TEACHER, 0.0) + length(after, {name: seconds[name] for name in students}, jobs)


def family_seconds(params: Params, families: list[str]) -> dict[str, float]:
    """The seconds of each family's training steps, measured by a few steps of each network.

    Validation, start-up, decoding and everything else are not included.
    """
    measured = cache(seconds_a_step)
    return {name: family.training.steps * measured(family.network, family.data.batch_tokens, params.bpe.vocabulary,
                                                   family.training.threads, family.training.precision)
            for name, family in ((name, params.family(name)) for name in families)}


def dear_precisions(params: Params, families: list[str]) -> dict[str, float]:
    """By each precision of bfloat16 of these families, how many times as long a product takes in it as in 32-true.

    Two bytes are quicker only where the processor multiplies them; elsewhere they are converted at every use. Measured
    with the first family of each precision, and not by whole steps, each of which might take a minute. Precisions that
    are quicker are left out, and those that are slower by no more than measurements differ.
    """
    costs = dict[str, float]()
    for family in map(params.family, families):
        chosen = family.training.precision
        if _is_bfloat16(chosen) and chosen not in costs:
            own, exact = (seconds_a_product(family.network, family.data.batch_tokens, precision)
                          for precision in (chosen, _EXACT))
            costs[chosen] = own / exact
    return {precision: cost for precision, cost in costs.items() if cost > _DEAR}


def seconds_a_product(settings: NetworkSettings, batch_tokens: int, precision: str) -> float:
    """The seconds of the first product of a feed-forward block, the minimum over a few."""
    rows = torch.randn(min(batch_tokens, _MOST), settings.width)
    weight = torch.randn(settings.feed_forward, settings.width)

    def once() -> float:
        start = time.perf_counter()
        with _in_precision(precision):
            F.linear(rows, weight)
        return time.perf_counter() - start

    return min(once() for _ in range(_STEPS))


def seconds_a_step(settings: NetworkSettings, batch_tokens: int, vocabulary: int, threads: int = 1,
                   precision: str = _EXACT) -> float:
    """The seconds of one training step on random ids, the minimum over a few steps.

    Of a large batch a part is measured, and the seconds are in proportion: the optimiser, whose work is the same for
    any batch, takes a small share of either.
    """
    keep_freed_memory()  # as a training does
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    network = Transformer(settings, vocabulary, vocabulary, make_order(OrderSettings("left_to_right"))).train()
    weights: list[Tensor] = list(network.parameters())
    means, squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    steps = [torch.zeros(()) for _ in weights]
    pieces = min(_PIECES, settings.max_length)
    ids = torch.randint(7, vocabulary, (max(1, min(batch_tokens, _MOST) // pieces), pieces))
    taken = list[float]()
    while len(taken) < _STEPS and sum(taken) < _SECONDS:
        start = time.perf_counter()
        with _in_precision(precision):
            loss = F.cross_entropy(network(ids, ids).flatten(0, 1), ids.flatten())
        gradients = list(torch.autograd.grad(loss, weights))
        with torch.no_grad():  # the class AdamW would import torch's compiler, which takes longer than all these steps
            adamw(weights, gradients, means, squares, [], steps, fused=True, amsgrad=False, maximize=False, lr=1e-3,
                  beta1=0.9, beta2=0.98, weight_decay=0.01, eps=1e-9)
        taken.append(time.perf_counter() - start)
    torch.set_num_threads(before)
    return min(taken) * batch_tokens / ids.numel()


def _in_precision(precision: str) -> torch.autocast:
    """A block that computes on the CPU as a training in one of Lightning's precisions does."""
    return torch.autocast("cpu", torch.bfloat16, enabled=_is_bfloat16(precision))


def _is_bfloat16(precision: str) -> bool:
    return precision.startswith("bf16")
