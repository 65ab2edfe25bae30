"""What do more candidates cost, and what do they buy? (Tables 2 and 4 to 9 of the paper.)

One line a lattice family, so that families trained with and without distillation stand side by side. K = 1 is the
count model alone.
"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from pipeline.decoding.lattice import Settings
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.measured import Measured, Measurements

Ladder = list[tuple[int, str, Measured]]
"""K, decoder and figures, by rising K."""


def candidates(measurements: Measurements, families: Mapping[str, str], decoders: Mapping[str, Mapping[str, Any]],
               baseline: Measured) -> Finding:
    """Set BLEU and time against K.

    Args:
        measurements: of all decoders.
        families: the lattice families, and the side of the data that each was trained on.
        decoders: the entries of params.yaml.
        baseline: beam 5 of the baseline.
    """
    ladders = {family: found for family in families if (found := ladder(family, measurements, decoders))}
    if not ladders:
        return not_measured("no lattice family was timed under a search in its lattice")
    metric = {"sentences": measurements.sentences, "baseline": baseline.metric(),
              **{family: {decoder: {"candidates": k, **measured.metric()} for k, decoder, measured in steps}
                 for family, steps in ladders.items()}}
    return Finding(metric, _draw(ladders, families, measurements.sentences, baseline))


def ladder(family: str, measurements: Measurements, decoders: Mapping[str, Mapping[str, Any]]) -> Ladder:
    """The measured decoders of a family that search K candidates a position."""
    steps = [(size, decoder, measured) for (whose, decoder), measured in measurements.decoders.items()
             if whose == family and (size := words_a_position(decoders[decoder])) is not None]
    return sorted(steps, key=lambda step: step[:2])


def words_a_position(block: Mapping[str, Any]) -> int | None:
    """K of an entry of `decoders`; None where it searches no candidates.

    >>> words_a_position({"algorithm": "lattice", "candidates": 16}), words_a_position({"algorithm": "counts"})
    (16, 1)
    """
    if block.get("algorithm") == "counts":
        return 1
    return block.get("candidates", Settings().candidates) if block.get("algorithm") == "lattice" else None


def _draw(ladders: Mapping[str, Ladder], families: Mapping[str, str], sentences: str, baseline: Measured) -> Figure:
    figure, (quality, speed) = chart.new_picture(2)
    quality.axhline(baseline.bleu, color=chart.THEME.muted, linewidth=1, linestyle="--", label="beam 5 of the baseline")
    for (family, steps), colour in zip(ladders.items(), chart.COLOURS * len(ladders), strict=False):
        sizes, found = [k for k, _, _ in steps], [measured for _, _, measured in steps]
        chart.curve(quality, sizes, [one.bleu for one in found], colour, label=f"{family} (data: {families[family]})")
        chart.curve(speed, sizes, [one.speedup for one in found], colour, intervals=[one.interval for one in found])
        for k, one in zip(sizes, found, strict=True):
            speed.annotate(f"{one.milliseconds:.1f} ms", (k, one.speedup), xytext=(4, 5), textcoords="offset points",
                           fontsize=8, color=colour)
    every = [k for steps in ladders.values() for k, _, _ in steps]
    for axes in (quality, speed):
        chart.powers_of_two(axes, every)
    chart.logarithmic(speed, "×")
    chart.name_axes(quality, "K, candidates a position", "BLEU")
    chart.name_axes(speed, "K, candidates a position", "speed against beam 5 of the baseline",
                    f"{sentences} sentences, one at a time")
    chart.add_legend(figure, 3)
    return figure
