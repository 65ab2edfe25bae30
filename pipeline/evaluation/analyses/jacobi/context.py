"""What the Jacobi paper's analyses share: the baseline, its Jacobi decoders, and long sources to time them on."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.bootstrap import speed_ratio
from pipeline.evaluation.reference import REFERENCE_DECODERS
from pipeline.evaluation.speed import Contestant, Floats
from pipeline.model.transformer import Transformer
from pipeline.params import Params

_ALGORITHM = "jacobi"
_, GREEDY = REFERENCE_DECODERS


def open_context(run: FinishedRun) -> FinishedRun:
    """The run itself, whose baseline is analysed.

    Raises:
        PipelineError: the baseline's checkpoint is missing or damaged.
    """
    run.network(run.params.baseline)
    return run


@dataclass(frozen=True)
class JacobiContestants:
    """The baseline's greedy search and Jacobi decoders, and what they are timed on."""

    family: str
    network: Transformer
    decoders: dict[str, Decoder]
    """By name, greedy search first."""
    sentences: list[Tensor]
    """Long sources, (1, S) ids each, on the network's device."""
    rule: str
    """Which sources are long, in words."""

    def with_model(self, decoders: dict[str, Decoder]) -> list[Contestant]:
        """Decoders with the network, ready to run."""
        return [Contestant(self.family, name, partial(decoder, self.network)) for name, decoder in decoders.items()]


def jacobi_decoders(params: Params) -> list[str]:
    """Those of the baseline itself; its rounded copy is another model, which nothing here measures."""
    return [name for name in params.decoders_of(params.baseline)
            if params.decoders[name]["algorithm"] == _ALGORITHM and params.greedy_of(name) == GREEDY]


def jacobi_contestants(run: FinishedRun, device: torch.device) -> JacobiContestants | Finding:
    """The baseline's decoders and long sources of the test split, evenly spread over their lengths.

    Returns:
        The finding that nothing can be measured where there are none of one or the other.
    """
    params, speed = run.params, run.params.speed
    names = jacobi_decoders(params)
    if not names:
        return not_measured(f"no decoder of family {params.baseline!r} is of algorithm {_ALGORITHM}")
    network = run.network(params.baseline, device)
    sentences = run.spread_sources(run.sources(), speed.long_sentences, network.settings.max_length,
                                   speed.long_tokens)[1]
    if not sentences:
        return not_measured(f"no test source has {speed.long_tokens} pieces (speed.long_tokens)")
    limit = run.limit(network)
    return JacobiContestants(
        params.baseline, network, {name: make_decoder(name, params.decoder(name), limit) for name in (GREEDY, *names)},
        [sentence.to(device) for sentence in sentences], f"sources of at least {speed.long_tokens} pieces")


def speed_figures(seconds: Floats, greedy: Floats) -> dict[str, float]:
    """Figures of a decoder from its times and greedy search's, (N,) each, with the interval of a bootstrap."""
    ratio, low, high = speed_ratio(greedy, seconds)
    return {"milliseconds": 1000 * float(seconds.mean()), "speedup_vs_greedy": ratio, "speedup_low": low,
            "speedup_high": high}
