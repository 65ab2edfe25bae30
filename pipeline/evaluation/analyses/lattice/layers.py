"""How many layers does the scorer need, and how many does a non-autoregressive decoder? (Table 3 and Figure 3.)"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.measured import Measured, Measurements

_LABELS = {"lattice": "lattice scorer", "nat": "NAT decoder"}


class Network(NamedTuple):
    """A trained network, under the decoder that it is judged by."""

    family: str
    decoder: str
    layers: int
    """`decoder_layers`: of a lattice its scorer's."""


def layers(measurements: Measurements, groups: Mapping[str, Sequence[Network]]) -> Finding:
    """Set BLEU and time against the number of layers.

    Args:
        measurements: of all decoders.
        groups: of the kinds `lattice` and `nat` the networks that differ in their number of layers. What was not
            measured is left out.
    """
    found = {kind: _measured(networks, measurements) for kind, networks in groups.items()}
    found = {kind: pairs for kind, pairs in found.items() if pairs}
    if all(len({network.layers for network, _ in pairs}) < 2 for pairs in found.values()):
        return not_measured("fewer than two depths of the families of analyses.lattice_layers or analyses.nat_layers "
                            "are among the systems")
    metric = {"sentences": measurements.sentences,
              **{kind: {network.family: {"decoder": network.decoder, "layers": network.layers, **measured.metric()}
                       for network, measured in pairs}
                 for kind, pairs in found.items()}}
    return Finding(metric, _draw(found, measurements.sentences))


Pairs = list[tuple[Network, Measured]]


def _measured(networks: Sequence[Network], measurements: Measurements) -> Pairs:
    known = measurements.decoders
    pairs = [(network, known[network[:2]]) for network in networks if network[:2] in known]
    return sorted(pairs, key=lambda pair: (pair[0].layers, pair[0].family))


def _label(kind: str, depths: Sequence[int]) -> str:
    """What the legend says of networks.

    >>> _label("lattice", [1, 2, 6]), _label("nat", [6])
    ('lattice scorer', 'NAT decoder, one depth trained')
    """
    return _LABELS[kind] + (", one depth trained" if len(set(depths)) == 1 else "")


def _draw(found: Mapping[str, Pairs], sentences: str) -> Figure:
    figure, (quality, speed) = chart.new_picture(2)
    for (kind, pairs), colour in zip(found.items(), chart.COLOURS, strict=False):
        depths = [network.layers for network, _ in pairs]
        chart.curve(quality, depths, [one.bleu for _, one in pairs], colour, label=_label(kind, depths))
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
