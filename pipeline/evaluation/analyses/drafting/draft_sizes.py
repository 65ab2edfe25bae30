"""Does a larger drafter pay? (Table 9 of the paper.)"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.drafting.context import DraftingContext
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.measured import Measured, Measurements
from pipeline.model.drafter import DrafterTransformer


class Size(NamedTuple):
    """The size of a drafter without its verifier."""

    parameters: int
    """Those that it shares with its verifier are the verifier's."""
    encoder_layers: int
    """0: it reads the verifier's encoder."""
    decoder_layers: int
    width: int


def ask(context: DraftingContext) -> Finding:
    """Of the drafters that the settings name."""
    networks = {name: context.run.network_of(name, DrafterTransformer) for name in context.settings.sizes}
    return draft_sizes(context.run.measurements, {name: drafter_size(network)
                                                  for name, network in networks.items() if network is not None})


def drafter_size(network: DrafterTransformer) -> Size:
    """The size of a drafter's own part."""
    own = sum(parameter.numel() for name, parameter in network.named_parameters() if not name.startswith("verifier."))
    shape = network.settings
    return Size(own, shape.encoder_layers, shape.decoder_layers, shape.width)


def draft_sizes(measurements: Measurements, sizes: Mapping[str, Size]) -> Finding:
    """Set accepted tokens and speed against parameters.

    Args:
        measurements: of all decoders; those that do not draft are ignored.
        sizes: of the drafters to compare.
    """
    ordered = sorted(sizes, key=lambda family: (sizes[family].parameters, family))
    found = [(family, decoder, measured) for family in ordered
             for (whose, decoder), measured in measurements.decoders.items()
             if whose == family and measured.accepted_per_call is not None]
    if len({sizes[family].parameters for family, _, _ in found}) < 2:
        return not_measured("fewer than two sizes of analyses.drafting.sizes were measured under a search that drafts")
    metric: dict[str, Any] = {"sentences": measurements.sentences}
    for family, decoder, measured in found:
        metric.setdefault(family, sizes[family]._asdict())[decoder] = {
            "accepted_per_call": measured.accepted_per_call, "bleu": measured.bleu,
            "milliseconds": measured.milliseconds, "speedup_vs_beam5": measured.speedup}
    return Finding(metric, _draw(found, sizes, measurements.sentences))


def _draw(found: Sequence[tuple[str, str, Measured]], sizes: Mapping[str, Size], sentences: str) -> Figure:
    figure, (accepted, speed) = chart.new_picture(2)
    for decoder, colour in chart.coloured(dict.fromkeys(name for _, name, _ in found)):
        millions = [sizes[family].parameters / 1e6 for family, name, _ in found if name == decoder]
        points = [measured for _, name, measured in found if name == decoder]
        chart.curve(accepted, millions, [one.accepted_per_call or 0 for one in points], colour, label=decoder)
        chart.curve(speed, millions, [one.speedup for one in points], colour,
                    intervals=[one.interval for one in points])
    for axes in (accepted, speed):
        axes.margins(0.15)
        axes.set_ylim(bottom=0)
    chart.name_axes(accepted, "million parameters of the drafter", "tokens per call, entire test set")
    chart.name_axes(speed, "million parameters of the drafter", "speed against beam 5 of the baseline, times",
                    f"{sentences} sentences, one at a time")
    chart.add_legend(figure, 4)
    return figure
