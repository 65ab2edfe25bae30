"""Do the words of one step depend on each other? (Table 3 and appendix B of the paper.)

A model that generates several words per step takes them for independent, given the words before. Its autoregressive
counterpart generates the same sequence word by word, so the difference of their log-perplexities estimates the
pointwise mutual information (PMI) of words of the same step (equation 13): what independence costs. It is an estimate
only if both were trained alike, so families are compared that differ in their order and in nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.orders import LEFT_TO_RIGHT, OrderContext, resample
from pipeline.evaluation.analyses.sentences import Sentences, make_batches
from pipeline.evaluation.bootstrap import Floats, interval
from pipeline.families.kinds.ordered import Settings as OrderedFamily
from pipeline.model.settings import OrderSettings
from pipeline.model.transformer import Transformer
from pipeline.params import Params
from pipeline.vocabulary import PAD

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
                  if replace(theirs, decoders=alike.decoders) == alike and params.starts[other] == params.starts[name]]
    return found


@torch.inference_mode()
def sentence_losses(network: Transformer, batches: Sequence[Sentences]) -> Floats:
    """The negative log-probability of each target, and its tokens.

    The end symbols that fill a step after the first one carry no information of their own, so they do not count.

    Args:
        network: of an order.
        batches: of N sentences.

    Returns:
        (N, 2) of the sentences in the order of the batches.
    """
    parts = []
    for source, target in batches:
        lengths = (target != PAD).sum(1)
        arranged = network.order.arrange(target, lengths)
        logits = network(source, arranged)
        chosen = logits.double().log_softmax(2).gather(2, arranged.unsqueeze(2)).squeeze(2)
        counted = torch.arange(arranged.shape[1], device=target.device) <= lengths.unsqueeze(1)
        parts.append(torch.stack([-chosen.masked_fill(~counted, 0.0).sum(1), lengths + 1.0], 1))
    return _floats(torch.cat(parts))


def _floats(values: Tensor) -> Floats:
    found: Floats = values.double().cpu().numpy()
    return found


def mutual_information(pairs: Sequence[Trained], losses: Mapping[str, Floats], *, samples: int,
                       left_out: int = 0) -> Finding:
    """Perplexities, and the estimated mutual information in nats per token.

    Args:
        pairs: of families.
        losses: (N, 2) of every family, see `sentence_losses`.
        samples: resamples of the paired bootstrap.
        left_out: sentences that are too long for the networks.
    """
    sentences = len(next(iter(losses.values())))
    times = resample(sentences, samples)
    metric: dict[str, Any] = {"sentences": sentences, "left_out": left_out}
    for family, counterpart in pairs:
        mine, theirs = losses[family], losses[counterpart]
        low, high = interval(_log_perplexity(times @ mine) - _log_perplexity(times @ theirs))
        logs = [float(_log_perplexity(one.sum(0))) for one in (mine, theirs)]
        metric[family] = {"counterpart": counterpart, "perplexity": float(np.exp(logs[0])),
                          "counterpart_perplexity": float(np.exp(logs[1])), "pmi": logs[0] - logs[1],
                          "pmi_low": low, "pmi_high": high}
    return Finding(metric, _draw(pairs, metric))


def _log_perplexity(sums: Floats) -> Floats:
    """(..., 2) sums of losses and tokens to losses per token (...)."""
    found: Floats = sums[..., 0] / sums[..., 1]
    return found


def _draw(pairs: Sequence[Trained], metric: Mapping[str, Any]) -> Figure:
    figure, (perplexity, information) = chart.new_picture(2)
    for at, (pair, colour) in enumerate(zip(pairs, chart.COLOURS, strict=False)):
        found = metric[pair.family]
        chart.curve(perplexity, [0, 1], [found["counterpart_perplexity"], found["perplexity"]], colour,
                    label=f"{pair.family} after {pair.counterpart}")
        chart.curve(information, [at], [found["pmi"]], colour, intervals=[(found["pmi_low"], found["pmi_high"])])
    perplexity.set_xticks([0, 1], ["word by word", "several words\nper step"])
    information.set_xticks(range(len(pairs)), [pair.family.replace("_", "_\n") for pair in pairs], fontsize=7)
    information.axhline(0, color=chart.THEME.muted, linewidth=1)
    chart.name_axes(perplexity, "", "perplexity per token", f"{metric['sentences']} sentences")
    chart.name_axes(information, "", "PMI of the words of a step, nats per token")
    for axes in (perplexity, information):
        axes.margins(x=0.2)
    chart.add_legend(figure, 1)
    return figure
