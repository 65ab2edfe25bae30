"""What do more candidates cost, and how much better do they translate? (Tables 2 and 4 to 9 of the paper.)

There is one curve per lattice family, so that families trained with and without distillation can be compared. K = 1 is
the count model without the scorer.
"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.lattice.context import LatticeContext, candidates_per_position
from pipeline.evaluation.analyses.measured import Measured, Measurements
from pipeline.evaluation.reference import REFERENCE_DECODERS
from pipeline.families.kinds.lattice import Settings as LatticeSettings

Sweep = list[tuple[int, str, Measured]]
"""K, decoder and figures, by rising K."""


def ask(context: LatticeContext) -> Finding:
    """Of all lattice families."""
    params, measurements = context.run.params, context.run.measurements
    families = {name: params.family(name).data.side for name in params.systems
                if isinstance(params.family(name), LatticeSettings)}
    if not families:
        return not_measured("no lattice family is among the systems")
    baseline = measurements.decoders[params.baseline, REFERENCE_DECODERS[0]]
    return candidates(measurements, families, params.decoders, baseline)


def candidates(measurements: Measurements, families: Mapping[str, str], decoders: Mapping[str, Mapping[str, Any]],
               baseline: Measured) -> Finding:
    """Set BLEU and time against K.

    Args:
        measurements: of all decoders.
        families: the lattice families, and the side of the data that each was trained on.
        decoders: the entries of params.yaml.
        baseline: beam 5 of the baseline.
    """
    sweeps = {family: found for family in families if (found := sweep(family, measurements, decoders))}
    if not sweeps:
        return not_measured("no lattice family was timed under a search in its lattice")
    metric = {"sentences": measurements.sentences, "baseline": baseline.metric(),
              **{family: {decoder: {"candidates": k, **measured.metric()} for k, decoder, measured in steps}
                 for family, steps in sweeps.items()}}
    return Finding(metric, _draw(sweeps, families, measurements.sentences, baseline))


def sweep(family: str, measurements: Measurements, decoders: Mapping[str, Mapping[str, Any]]) -> Sweep:
    """The measured decoders of a family that search K candidates per position, in float32."""
    steps = [(k, decoder, measured) for (own, decoder), measured in measurements.decoders.items()
             if own == family and decoders[decoder].get("quantization", "float32") == "float32"
             and (k := candidates_per_position(decoders[decoder])) is not None]
    return sorted(steps, key=lambda step: step[:2])


def _draw(sweeps: Mapping[str, Sweep], families: Mapping[str, str], sentences: str, baseline: Measured) -> Figure:
    figure, (quality, speed) = chart.new_picture(2)
    quality.axhline(baseline.bleu, color=chart.THEME.muted, linewidth=1, linestyle="--", label="beam 5 of the baseline")
    for (family, steps), colour in chart.coloured(sweeps.items()):
        sizes, found = [k for k, _, _ in steps], [measured for _, _, measured in steps]
        chart.curve(quality, sizes, [one.bleu for one in found], colour, label=f"{family} (data: {families[family]})")
        chart.curve(speed, sizes, [one.speedup for one in found], colour, intervals=[one.interval for one in found])
    every = [k for steps in sweeps.values() for k, _, _ in steps]
    for axes in (quality, speed):
        chart.powers_of_two(axes, every)
    chart.logarithmic(speed, "×")
    chart.name_axes(quality, "K, candidates per position", "BLEU")
    chart.name_axes(speed, "K, candidates per position", "speed against beam 5 of the baseline",
                    f"{sentences} sentences, one at a time")
    chart.add_legend(figure, 3)
    return figure
