"""What the questions share: a run's parameters, networks and figures."""

from dataclasses import dataclass
from typing import TypeVar

import torch

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.pairs import Ids, Pairs
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.measured import Measurements, read_measurements
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.transformer import Transformer
from pipeline.params import Params
from pipeline.translation import pick_device

N = TypeVar("N", bound=Transformer)


@dataclass(frozen=True)
class Lab:
    """A finished run."""

    params: Params
    tokenizer: Tokenizer
    device: torch.device
    measurements: Measurements

    @classmethod
    def open(cls, params: Params) -> "Lab":
        """Read what every question needs.

        Raises:
            PipelineError: what an earlier stage writes is missing or damaged.
        """
        return cls(params, Tokenizer.load(layout.BPE), torch.device(pick_device(params.speed.device)),
                   read_measurements(layout.REPORTS / "quality", layout.REPORTS / "speed.json"))

    def network(self, family: str) -> Transformer | None:
        """A family's network, on the device; None where it is not among the systems.

        Raises:
            PipelineError: its checkpoint is missing or damaged.
        """
        if family not in self.params.systems:
            return None
        return load_checkpoint(layout.checkpoint(family), self.tokenizer.digest)[0].to(self.device)

    def network_of(self, family: str, wanted: type[N]) -> N | None:
        """A family's network that must be of the wanted class, on the device; None where it is not among the systems.

        Raises:
            PipelineError: its checkpoint is missing or damaged, or it is of another class.
        """
        loaded = self.network(family)
        if loaded is not None and not isinstance(loaded, wanted):
            raise PipelineError(f"analyses: family {family!r} is of kind {loaded.kind}, not {wanted.kind}; name "
                                "another")
        return loaded

    def pairs(self, split: str) -> list[tuple[Ids, Ids]]:
        """Sources and references of a split."""
        pairs = Pairs.open(layout.BPE / f"{split}.pairs", self.tokenizer.digest)
        return [(pairs.source(row), pairs.target(row)) for row in range(len(pairs))]

    def limit(self, network: Transformer) -> LengthLimit:
        """The longest output."""
        return LengthLimit(self.params.limit.ratio, self.params.limit.extra, network.settings.max_length - 1)
