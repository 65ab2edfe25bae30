"""What the analyses share: a run's parameters, networks and figures."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Ids, Pairs
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.measured import Measurements, read_measurements
from pipeline.evaluation.clock import clock_device, spread
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.transformer import Transformer
from pipeline.params import Params

N = TypeVar("N", bound=Transformer)


@dataclass(frozen=True)
class FinishedRun:
    """A run whose systems are trained, evaluated and timed."""

    params: Params
    tokenizer: Tokenizer
    device: torch.device
    measurements: Measurements
    _networks: dict[tuple[str, torch.device], Transformer] = field(default_factory=dict)
    """Each network that has been loaded, by family and device."""

    @classmethod
    def open(cls, params: Params) -> "FinishedRun":
        """Read what every analysis needs.

        Raises:
            PipelineError: what an earlier stage writes is missing or damaged.
        """
        return cls(params, Tokenizer.load(layout.BPE), clock_device(params.speed),
                   read_measurements(layout.REPORTS / "quality", layout.REPORTS / "speed.json"))

    def network(self, family: str, device: torch.device | None = None) -> Transformer:
        """The network of one of the systems; the analyses share it.

        Args:
            family: its name.
            device: where it will be; None: the device of the run.

        Raises:
            PipelineError: its checkpoint is missing or damaged.
        """
        key = family, device or self.device
        if key not in self._networks:
            self._networks[key] = load_checkpoint(layout.checkpoint(family), self.tokenizer.digest)[0].to(key[1])
        return self._networks[key]

    def network_of(self, family: str, wanted: type[N]) -> N | None:
        """A family's network, which must be of the wanted class; None where it is not among the systems.

        Raises:
            PipelineError: its checkpoint is missing or damaged, or it is of another class.
        """
        if family not in self.params.systems:
            return None
        loaded = self.network(family)
        if not isinstance(loaded, wanted):
            raise PipelineError(f"analyses: family {family!r} is of kind {loaded.kind}, not {wanted.kind}; name "
                                "another")
        return loaded

    def pairs(self, split: str) -> list[tuple[Ids, Ids]]:
        """Sources and references of a split."""
        pairs = Pairs.open(layout.BPE / f"{split}.pairs", self.tokenizer.digest)
        return [(pairs.source(row), pairs.target(row)) for row in range(len(pairs))]

    def sources(self) -> list[Ids]:
        """Sources of the test split."""
        return [source for source, _ in self.pairs("test")]

    def references(self) -> list[list[str]]:
        """The references of the test split, (R, N)."""
        return [list(layout.read_corpus(path)) for path in layout.references("test")]

    def spread_sources(self, sources: Sequence[Ids], count: int, longest: int,
                       least: int = 0) -> tuple[list[int], list[Tensor]]:
        """Some of the sources, evenly spread over their lengths.

        Args:
            sources: ids without end symbols.
            count: how many, if there are as many.
            longest: tokens that the networks accept; longer sources are cut.
            least: pieces that a source must have.

        Returns:
            Their rows, and (1, S) ids of each, on the device.
        """
        lengths = np.array([len(source) for source in sources], np.int32)
        rows = spread(lengths, np.flatnonzero(lengths >= least), count)
        return rows, [pad_sources([sources[row]], longest).to(self.device) for row in rows]

    def limit(self, network: Transformer) -> LengthLimit:
        """The longest output."""
        return self.params.length_limit(network.settings.max_length)
