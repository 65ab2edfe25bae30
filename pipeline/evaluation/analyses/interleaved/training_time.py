"""Does another order train as fast? (Table 1 of the paper, and section 5.1: 0.98 times.)

The baseline and families of other orders do the same steps on the same training batches in turns: loss, gradients and
optimiser, without Lightning's loop around them. The weights are random, since the time does not depend on them. Of
families that differ only in what they learnt from, the first one stands for the others.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from pipeline import layout
from pipeline.corpus.batches import TrainingBatches
from pipeline.corpus.datamodule import Batch, PairBatches
from pipeline.corpus.pairs import Pairs
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.orders import OrderContext
from pipeline.evaluation.bootstrap import Floats, speed_ratio
from pipeline.evaluation.speed import turns
from pipeline.families.ordered import OrderedModule
from pipeline.model.settings import VocabularySettings

_STEPS, _WARMUP = 40, 3
_CLIP = 1.0
Step = Callable[[Batch], float]
"""Trains on a batch and returns the seconds that it took."""


def ask(context: OrderContext) -> Finding:
    """Of the baseline's batches of the corpus, in its precision, on the threads of the run."""
    if not context.rivals:
        return context.not_measured()
    run, families = context.run, context.different()
    own = run.params.family(context.baseline)
    longest = min(run.params.family(name).network.max_length for name in families)
    data = PairBatches([Pairs.open(layout.BPE / "train.pairs", run.tokenizer.digest)], longest)
    batches = [data[one] for one in TrainingBatches(data.target_lengths, data.source_lengths, seed=run.params.seed,
                                                    budget=own.data.batch_tokens, steps=_STEPS)]
    steps = {name: _step(run, name, own.training.precision) for name in families}
    return training_time(context.baseline, measure(steps, batches, warmup=_WARMUP), batches)


def _step(run: FinishedRun, family: str, precision: str) -> Step:
    settings = run.params.family(family)
    assert settings.order is not None
    tokenizer, seed = run.tokenizer, run.params.seed
    torch.manual_seed(seed)
    module = OrderedModule(settings.network, settings.order, settings.optimisation, VocabularySettings(
        len(tokenizer.source_pieces), len(tokenizer.target_pieces), tokenizer.digest), seed).to(run.device).train()
    optimizer = torch.optim.AdamW(module.network.parameters(), settings.optimisation.learning_rate, fused=True)

    def step(batch: Batch) -> float:
        start = time.perf_counter()
        optimizer.zero_grad()
        moved = batch._replace(source=batch.source.to(run.device), target=batch.target.to(run.device),
                               target_lengths=batch.target_lengths.to(run.device))
        with torch.autocast(run.device.type, torch.bfloat16, enabled="bf16" in precision):
            loss, _ = module.loss(moved, module.optimisation.label_smoothing)
        (loss * batch.weight).backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), _CLIP).item()  # waits for the device
        optimizer.step()
        return time.perf_counter() - start

    return step


def measure(steps: Mapping[str, Step], batches: Sequence[Batch], *, warmup: int) -> dict[str, Floats]:
    """(steps,) seconds of each family on the same batches, whose turn changes from batch to batch."""
    names, orders = list(steps), turns(len(steps))
    for batch in batches[:warmup]:
        for step in steps.values():
            step(batch)
    seconds = {name: np.zeros(len(batches)) for name in names}
    for at, batch in enumerate(batches):
        for who in orders[at % len(orders)]:
            seconds[names[who]][at] = steps[names[who]](batch)
    return seconds


def training_time(baseline: str, seconds: Mapping[str, Floats], batches: Sequence[Batch]) -> Finding:
    """The baseline's target tokens per second, and the others' steps per second relative to its own.

    Args:
        baseline: the family that the others are compared with.
        seconds: of every step, by family.
        batches: of these steps.
    """
    tokens = sum(int(batch.target_lengths.sum()) + len(batch.rows) for batch in batches)
    metric: dict[str, Any] = {"steps": len(batches), "baseline": baseline,
                              "baseline_tokens_per_second": tokens / float(seconds[baseline].sum())}
    for family, mine in seconds.items():
        if family != baseline:
            metric[family] = speed_ratio(seconds[baseline], mine).named("speedup")
    return Finding(metric, _draw({name: metric[name] for name in seconds if name != baseline}, baseline))


def _draw(ratios: Mapping[str, Mapping[str, float]], baseline: str) -> Figure:
    figure, (axes,) = chart.new_picture()
    chart.intervals_by_name(axes, {name: (one["speedup"], one["speedup_low"], one["speedup_high"])
                                   for name, one in ratios.items()})
    axes.axvline(1, color=chart.THEME.muted, linewidth=1)
    chart.name_axes(axes, f"training speed relative to {baseline}, same batches", "")
    return figure
