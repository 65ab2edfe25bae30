"""What the analyses of generation orders share: families of other orders, each beside the baseline."""

from dataclasses import dataclass
from typing import NamedTuple

from pipeline import layout
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.bootstrap import Estimate, Floats, compare_ratios
from pipeline.evaluation.rows import Name, read_lines, texts_of
from pipeline.families.kinds.ordered import Settings as OrderedFamily
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.params import Params

LEFT_TO_RIGHT = OrderSettings("left_to_right")


class Rival(NamedTuple):
    """A family of another order under one decoder."""

    family: str
    decoder: str
    counterpart: Name
    """What it is compared with: a family in the order of the baseline under the decoder with as many beams."""

    @property
    def name(self) -> Name:
        return self.family, self.decoder


@dataclass(frozen=True)
class OrderContext:
    """The rivals of a run's baseline."""

    run: FinishedRun
    rivals: tuple[Rival, ...]
    """Each under its search with most beams; none where all systems generate in the order of the baseline."""

    @property
    def baseline(self) -> str:
        return self.run.params.baseline

    def not_measured(self) -> Finding:
        """What is reported where there is no rival."""
        return not_measured("no system generates in another order than the baseline")

    def names(self) -> list[Name]:
        """What rivals are compared with, then the rivals; each once."""
        return list(dict.fromkeys([*(one.counterpart for one in self.rivals), *(one.name for one in self.rivals)]))

    def different(self) -> list[str]:
        """The baseline, and the first rival of each order and network: all families whose times can differ much.

        Those that are compared with a family of another network than the baseline's are left out: they differ from the
        baseline in more than their order.
        """
        params = self.run.params
        first = dict[tuple[NetworkSettings, OrderSettings | None], str]()
        for name in (self.baseline, *(one.family for one in self.rivals
                                      if params.family(one.counterpart[0]).network
                                      == params.family(self.baseline).network)):
            settings = params.family(name)
            first.setdefault((settings.network, settings.order), name)
        return list(first.values())

    def texts(self) -> dict[Name, list[str]]:
        """The hypotheses (N,) of `names` for the test split.

        Raises:
            PipelineError: a file is missing, damaged or of another test set.
        """
        return texts_of(read_lines(layout.HYPOTHESES, self.names(), len(self.run.references()[0])))


def open_context(run: FinishedRun) -> OrderContext:
    """Find the rivals among the systems of a run."""
    params, counterparts = run.params, run.params.counterparts()
    rivals = []
    for family in params.systems:
        settings = params.family(family)
        if not isinstance(settings, OrderedFamily) or settings.order == params.family(params.baseline).order:
            continue
        found = [Rival(family, decoder, (_counterpart(params, family, counterparts[decoder]), counterparts[decoder]))
                 for decoder in params.decoders_of(family)
                 if decoder in counterparts and params.quantization_of(decoder) == "float32"]
        if found:
            rivals.append(max(found, key=lambda one: params.decoders[one.decoder].get("beams", 1)))
    return OrderContext(run, tuple(rivals))


def _counterpart(params: Params, family: str, decoder: str) -> str:
    """The baseline, or its namesake with a family's own ending, which has that family's start, data and steps.

    In a run that has both, `interleaved_raw` is compared with `ar_raw` and not with `ar`.
    """
    namesake = f"{params.baseline}_{family.rpartition('_')[2]}"
    if namesake not in params.systems or decoder not in params.decoders_of(namesake):
        return params.baseline
    own, order = params.family(namesake), params.family(params.baseline).order
    return namesake if isinstance(own, OrderedFamily) and own.order == order else params.baseline


def share_with_difference(mine: Floats, theirs: Floats, times: Floats, units: int | None = None) -> dict[str, float]:
    """A share of two systems over all sentences, and their difference with its 95 % interval.

    Args:
        mine, theirs: (N, 2) counts per sentence: of what the share is, and of what it is a share of.
        times: (samples, N), see `bootstrap.resample`.
        units: what a resample draws, if not N sentences.

    Returns:
        Percentages by their name in a metrics file.
    """
    found = compare_ratios(mine, theirs, times, units)
    difference = Estimate(*(100 * value for value in (found.difference, found.low, found.high)))
    return {"percent": 100 * found.mine, **difference.named("difference")}
