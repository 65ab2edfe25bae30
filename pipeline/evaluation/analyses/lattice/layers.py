"""How many layers does the scorer need, and how many does a non-autoregressive decoder? (Table 3 and Figure 3.)"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.lattice.context import LatticeContext
from pipeline.evaluation.analyses.measured import Measured, Measurements

_LABELS = {"lattice": "lattice scorer", "nat": "NAT decoder"}


class Depth(NamedTuple):
    """A trained network and the decoder under which it is compared."""

    family: str
    decoder: str
    layers: int
    """`decoder_layers`: for a lattice, those of its scorer."""


Pairs = list[tuple[Depth, Measured]]


def ask(context: LatticeContext) -> Finding:
    """Of the families that the settings name."""
    params, settings = context.run.params, context.run.params.analyses

    def depths(names: Sequence[str], decoder: str | None) -> list[Depth]:
        return [Depth(name, decoder or params.decoders_of(name)[0], params.family(name).network.decoder_layers)
                for name in names if name in params.systems]

    return layers(context.run.measurements, {"lattice": depths(settings.lattice_layers, settings.decoder),
                                             "nat": depths(settings.nat_layers, None)})


def layers(measurements: Measurements, groups: Mapping[str, Sequence[Depth]]) -> Finding:
    """Set BLEU and time against the number of layers.

    Args:
        measurements: of all decoders.
        groups: by kind, `lattice` or `nat`, networks that differ in their number of layers. Those that were not
            measured are ignored.
    """
    measured = measurements.decoders
    found = {kind: sorted(((depth, measured[depth[:2]]) for depth in depths if depth[:2] in measured),
                          key=lambda pair: (pair[0].layers, pair[0].family)) for kind, depths in groups.items()}
    found = {kind: pairs for kind, pairs in found.items() if pairs}
    if all(len({depth.layers for depth, _ in pairs}) < 2 for pairs in found.values()):
        return not_measured("fewer than two depths of the families of analyses.lattice_layers or analyses.nat_layers "
                            "are among the systems")
    metric = {"sentences": measurements.sentences,
              **{kind: {depth.family: {"decoder": depth.decoder, "layers": depth.layers, **one.metric()}
                        for depth, one in pairs} for kind, pairs in found.items()}}
    return Finding(metric, _draw(found, measurements.sentences))


def _draw(found: Mapping[str, Pairs], sentences: str) -> Figure:
    figure, (quality, speed) = chart.new_picture(2)
    for (kind, pairs), colour in chart.coloured(found.items()):
        depths = [depth.layers for depth, _ in pairs]
        chart.curve(quality, depths, [one.bleu for _, one in pairs], colour,
                    label=_LABELS[kind] + (", one depth trained" if len(set(depths)) == 1 else ""))
        chart.curve(speed, depths, [one.speedup for _, one in pairs], colour,
                    intervals=[one.interval for _, one in pairs])
    for axes in (quality, speed):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(0.1)
    speed.set_ylim(bottom=0)
    chart.name_axes(quality, "layers of scorer or decoder", "BLEU")
    chart.name_axes(speed, "layers of scorer or decoder", "speed against beam 5 of the baseline, times",
                    f"{sentences} sentences, one at a time")
    chart.add_legend(figure, len(found))
    return figure
