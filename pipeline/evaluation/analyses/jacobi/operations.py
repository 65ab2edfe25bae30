"""How many operations does a decoder need, and how many does its training? (Table 3 of the paper.)

The paper's Table 3 compares a decoder that needs no training (HGJ, 2.53e13 operations for the test set at 1.34 times
the speed of greedy search) with models that must be trained (from 1.55e17 operations on). Its last column divides all
operations, training and one translation of the test set, by the speed. The same is done here for every system of a run:
training is that of the family and of those whose weights it starts from, except what the baseline also needs.

`flops.py` defines an operation. The paper estimates them from numbers of parameters and steps with the calculator of
ELECTRA; here they are those of the actual sentences and batches.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from pipeline import layout
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.jacobi.context import GREEDY
from pipeline.evaluation.analyses.jacobi.flops import sentence_operations
from pipeline.evaluation.analyses.jacobi.training import training_operations
from pipeline.evaluation.analyses.measured import Measurements
from pipeline.evaluation.rows import Name
from pipeline.model.checkpoint import read_config
from pipeline.model.formats import FORMATS, in_format
from pipeline.params import Params
from pipeline.systems import TEACHER


class Training(NamedTuple):
    """Operations of a family's training."""

    own: int
    """Those of its own steps."""
    added: int
    """Also those of the families that it starts from, except those of the baseline and what that starts from."""


def ask(run: FinishedRun) -> Finding:
    """Of every system under each of its decoders, over some sentences of the test split."""
    params, sources = run.params, run.sources()
    longest = min(params.family(family).network.max_length for family in params.systems)
    sentences, means = run.spread_sources(sources, params.speed.sentences, longest)[1], {}
    for family in params.systems:
        network = run.network(family)
        for decoder in dict.fromkeys([*params.decoders_of(family), *([GREEDY] if family == params.baseline else [])]):
            block = dict(params.decoder(decoder))
            searched = in_format(network, block.pop("quantization", FORMATS[0]))  # what counts operations is no network
            search = make_decoder(decoder, block, run.limit(network))
            with torch.inference_mode():
                means[family, decoder] = float(np.mean(sentence_operations(searched, search, sentences)))
    trained = {one for family in params.systems for one in lineage(params, family)}
    own = {family: training_operations(params, family, run.tokenizer, read_config(
        layout.checkpoint(family))["training"]["steps"]) for family in trained}
    return operations(means, add_starts(own, params), speeds(run.measurements, params.baseline),
                      baseline=params.baseline, sentences=len(sentences), test_sentences=len(sources))


def lineage(params: Params, family: str) -> list[str]:
    """A family, the one whose weights it starts from, and so on to the teacher: systems, and starts that are none."""
    return [family] if family == TEACHER else [family, *lineage(params, params.starts[family])]


def add_starts(own: Mapping[str, int], params: Params) -> dict[str, Training]:
    """What each system's training adds to the baseline's.

    Args:
        own: operations of the steps of every family that some system descends from.
        params: of the run.
    """
    for_baseline = lineage(params, params.baseline)
    return {family: Training(own[family], sum(own[one] for one in lineage(params, family) if one not in for_baseline))
            for family in params.systems}


def speeds(measurements: Measurements, baseline: str) -> dict[Name, float]:
    """The speed of every timed decoder as a multiple of that of the baseline's greedy search."""
    greedy = measurements.decoders.get((baseline, GREEDY))
    return {} if greedy is None else {name: greedy.milliseconds / one.milliseconds
                                      for name, one in measurements.decoders.items()}


def operations(means: Mapping[Name, float], trainings: Mapping[str, Training], speeds: Mapping[Name, float], *,
               baseline: str, sentences: int, test_sentences: int) -> Finding:
    """Set operations against the baseline's greedy search.

    Args:
        means: operations per sentence of every decoder, the baseline's greedy search included.
        trainings: of every family.
        speeds: of the timed decoders, as multiples of that of the baseline's greedy search.
        baseline: the family that needs no further training.
        sentences: over which `means` are.
        test_sentences: of the test set, one translation of which is added to training.
    """
    metric: dict[str, Any] = {"baseline": f"{baseline} {GREEDY}", "sentences": sentences,
                              "test_sentences": test_sentences}
    for (family, decoder), mean in means.items():
        training, speed = trainings[family], speeds.get((family, decoder))
        total = training.added + test_sentences * mean
        entry = metric.setdefault(family, {"training_operations": training.own,
                                           "added_training_operations": training.added, "decoders": {}})
        entry["decoders"][decoder] = {
            "operations": mean, "ratio_to_greedy": mean / means[baseline, GREEDY], "speedup_vs_greedy": speed,
            "total_operations": total, "total_over_speed": None if speed is None else total / speed}
    return Finding(metric, _draw(means, trainings, baseline))


def _draw(means: Mapping[Name, float], trainings: Mapping[str, Training], baseline: str) -> Figure:
    """The baseline under all of its decoders, every other family under its first one, and the training of each."""
    figure, (inference, training) = chart.new_picture(2)
    shown = [name for name in means if name[0] == baseline]
    for name in means:
        if name[0] not in {family for family, _ in shown}:
            shown.append(name)
    chart.bars(inference, {" ".join(name): means[name] / means[baseline, GREEDY] for name in shown},
               [chart.COLOURS[0 if family == baseline else 1] for family, _ in shown])
    inference.axvline(1, color=chart.THEME.muted, linewidth=1, linestyle="--")
    chart.name_axes(inference, f"times the operations of {baseline} {GREEDY}", "", "a translation")
    chart.bars(training, {family: one.added / 1e12 for family, one in trainings.items()},
               [chart.COLOURS[0 if family == baseline else 1] for family in trainings])
    chart.name_axes(training, "10¹² operations", "", f"training, beyond that of {baseline}")
    return figure
