"""What the lattice paper's analyses share: a lattice, and the network with which its candidates are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pipeline.decoding.lattice import Settings
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.sentences import make_sources
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.masked import MaskedTransformer

ROWS = 8
"""Sentences per batch; more are slower on a CPU, because a lattice has a thousand rows per sentence."""


@dataclass(frozen=True)
class LatticeContext:
    """The networks that are analysed."""

    run: FinishedRun
    lattice: LatticeTransformer | None
    """None where it is not among the systems."""
    k: int
    """Candidates per position of `analyses.decoder`; 0 without a lattice."""
    nat: MaskedTransformer | None
    """None where it is not among the systems."""

    def not_measured(self) -> Finding:
        """What is reported where there is no lattice to analyse."""
        return not_measured(f"family {self.run.params.analyses.lattice!r} is not among the systems")

    def sources(self, lattice: LatticeTransformer, rows: int) -> list[Tensor]:
        """The test sources in batches (B, S) for the lattice."""
        return make_sources(self.run.sources(), rows=rows, longest=lattice.settings.max_length, device=self.run.device)


def open_context(run: FinishedRun) -> LatticeContext:
    """Load the networks.

    Raises:
        PipelineError: the settings do not fit the run, or a checkpoint is missing or damaged.
    """
    settings = run.params.analyses
    lattice, nat = run.network_of(settings.lattice, LatticeTransformer), run.network_of(settings.nat, MaskedTransformer)
    if lattice is None:
        return LatticeContext(run, None, 0, nat)
    entry = run.params.decoder(settings.decoder, "analyses.decoder")
    k = candidates_per_position(entry)
    if k is None or entry["algorithm"] != "lattice":
        raise PipelineError(f"analyses.decoder: {settings.decoder!r} is not a search in a lattice; name one that is")
    return LatticeContext(run, lattice, k, nat)


def candidates_per_position(entry: Mapping[str, Any]) -> int | None:
    """K of an entry of `decoders`; None where it searches no candidates.

    >>> candidates_per_position({"algorithm": "lattice", "candidates": 16}), candidates_per_position(
    ...     {"algorithm": "counts"})
    (16, 1)
    """
    if entry.get("algorithm") == "counts":
        return 1
    return entry.get("candidates", Settings().candidates) if entry.get("algorithm") == "lattice" else None
