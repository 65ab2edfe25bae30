"""What the questions share: a run's parameters, networks and figures."""

from dataclasses import dataclass

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

    def network(self, family: str, kind: str | None = None) -> Transformer | None:
        """A family's network, on the device; None where it is not among the systems.

        Raises:
            PipelineError: its checkpoint is missing or damaged, or it is not of the wanted kind.
        """
        if family not in self.params.systems:
            return None
        loaded, _ = load_checkpoint(layout.checkpoint(family), self.tokenizer.digest)
        if kind is not None and loaded.kind != kind:
            raise PipelineError(f"analyses: family {family!r} is of kind {loaded.kind}, not {kind}; name another")
        return loaded.to(self.device)

    def pairs(self, split: str) -> list[tuple[Ids, Ids]]:
        """Sources and references of a split."""
        pairs = Pairs.open(layout.BPE / f"{split}.pairs", self.tokenizer.digest)
        return [(pairs.source(row), pairs.target(row)) for row in range(len(pairs))]

    def limit(self, network: Transformer) -> LengthLimit:
        """The longest output."""
        return LengthLimit(self.params.limit.ratio, self.params.limit.extra, network.settings.max_length - 1)
