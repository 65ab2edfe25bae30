"""Do the words of one step depend on each other? (Table 3 and appendix B of the paper.)

A model that generates several words per step takes them for independent, given the words before. Its autoregressive
counterpart generates the same sequence word by word, so the difference of their log-perplexities estimates the
pointwise mutual information (PMI) of words of the same step (equation 13): what independence costs. It is an estimate
only if both were trained alike, so families are compared that differ in their order and in nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.orders import LEFT_TO_RIGHT, OrderContext
from pipeline.evaluation.analyses.sentences import make_batches, sentence_losses
from pipeline.evaluation.bootstrap import Estimate, Floats, compare_ratios, interval, ratio, resample
from pipeline.families.kinds.ordered import Settings as OrderedFamily
from pipeline.model.settings import OrderSettings
from pipeline.params import Params

_ROWS = 32
"""Sentences per batch."""
_COUNTERPARTS = {"left_to_right": LEFT_TO_RIGHT, "interleaved": OrderSettings("alternating")}
"""The order that generates the same sequence word by word, by the name of an order of several words per step."""


class Trained(NamedTuple):
    """A family of several words per step, and the family that generates the same sequence word by word."""

    family: str
    counterpart: str


def ask(context: OrderContext) -> Finding:
    """Over the references of the entire test split."""
    run = context.run
    found = trained_alike(run.params)
    if not found:
        return not_measured("no two systems are trained alike, one in an order of several words per step, the other in "
                            "the same order word by word")
    networks = {family: run.network(family) for family in dict.fromkeys(name for pair in found for name in pair)}
    longest = min(network.settings.max_length for network in networks.values())
    batches, left_out = make_batches(run.pairs("test"), rows=_ROWS, longest=longest, device=run.device)
    losses = {family: sentence_losses(network, batches) for family, network in networks.items()}
    return mutual_information(found, losses, samples=run.params.evaluation.bootstrap_samples, left_out=left_out)


def trained_alike(params: Params) -> list[Trained]:
    """The systems that differ from another system only in that their order has several words per step."""
    ordered = {name: settings for name in params.systems
               if isinstance(settings := params.family(name), OrderedFamily) and name in params.starts}
    found = []
    for name, settings in ordered.items():
        assert settings.order is not None
        wanted = _COUNTERPARTS.get(settings.order.name)
        if wanted in (None, settings.order):
            continue
        alike = replace(settings, order=wanted)
        found += [Trained(name, other) for other, theirs in ordered.items()
                  if replace(theirs, decoders=alike.decoders) == alike
                  and params.start_of(other) == params.start_of(name)]
    return found


def mutual_information(pairs: Sequence[Trained], losses: Mapping[str, Floats], *, samples: int,
                       left_out: int = 0) -> Finding:
    """Perplexities, the estimated mutual information in nats per token, and how much it differs between families.

    Args:
        pairs: of families.
        losses: (N, 2) of every family, see `sentences.sentence_losses`.
        samples: resamples of the paired bootstrap.
        left_out: sentences that are too long for the networks.
    """
    sentences = len(next(iter(losses.values())))
    times = resample(sentences, samples)
    metric: dict[str, Any] = {"sentences": sentences, "left_out": left_out}
    estimates = {one.family: ratio(times @ losses[one.family]) - ratio(times @ losses[one.counterpart])
                 for one in pairs}
    for family, counterpart in pairs:
        found = compare_ratios(losses[family], losses[counterpart], times)  # nats per token
        metric[family] = {"counterpart": counterpart, "perplexity": math.exp(found.mine),
                          "counterpart_perplexity": math.exp(found.theirs), "pmi": found.difference,
                          "pmi_low": found.low, "pmi_high": found.high}
    metric["differences"] = {
        f"{one} - {other}": Estimate(metric[one]["pmi"] - metric[other]["pmi"], *interval(
            estimates[one] - estimates[other], sentences)).named("pmi") for one, other in permutations(estimates, 2)}
    return Finding(metric, _draw(metric, [pair.family for pair in pairs]))


def _draw(metric: Mapping[str, Any], families: Sequence[str]) -> Figure:
    figure, (perplexity, information) = chart.new_picture(2)
    found = {family: metric[family] for family in families}
    for at, (one, colour) in enumerate(chart.coloured(found.values())):
        for value, marker in ((one["counterpart_perplexity"], "|"), (one["perplexity"], "o")):
            perplexity.plot([value], [at], color=colour, marker=marker, markersize=7)
    perplexity.set_yticks(range(len(found)), [f"{name}\n| {one['counterpart']}" for name, one in found.items()],
                          fontsize=7)
    perplexity.set_ylim(len(found) - 0.5, -0.5)
    chart.intervals_by_name(information, {family: (one["pmi"], one["pmi_low"], one["pmi_high"])
                                          for family, one in found.items()})
    information.axvline(0, color=chart.THEME.muted, linewidth=1)
    information.set_yticklabels([])
    chart.name_axes(perplexity, "perplexity per token", "", f"{metric['sentences']} sentences")
    chart.name_axes(information, "PMI of the words of a step, nats per token", "")
    return figure
