"""The `bpe` and `data` blocks of params.yaml, checked when they are built."""

from dataclasses import dataclass
from typing import Annotated

from pipeline.checks import Checked, Natural, Positive, Range
from pipeline.errors import PipelineError

SIDES = ("raw", "distilled", "both", "synthetic")


@dataclass(frozen=True)
class BpeSettings(Checked):
    """Byte-pair encoding by SentencePiece."""

    vocabulary: Positive = 3000
    """Size of the vocabulary (of each of the two if not joint), special ids included."""
    joint: bool = True
    """One vocabulary for both languages (needed to tie all embeddings) or one a side."""
    character_coverage: Annotated[float, Range(at_least=0.9, at_most=1)] = 1.0
    """Share of the characters seen that get a piece; 0.9995 suits scripts with thousands of characters."""
    max_length: Positive = 256
    """Training pairs with more pieces than this on either side are dropped, and counted."""
    sample: Positive = 2_000_000
    """Lines that the vocabulary is learned from, at about 0.5 KB of memory each; a larger corpus is thinned
    evenly."""


@dataclass(frozen=True)
class DataSettings(Checked):
    """What a family is trained on."""

    side: str = "raw"
    """Targets: `raw` (the corpus), `distilled` (the teacher's) or `both`; `synthetic`: pairs made by `corpus.noise`."""
    batch_tokens: Positive = 600
    """Target tokens of one optimiser step over all devices and accumulated batches, padding included."""
    workers: Natural = 0
    """Processes that collate batches; 0: the training process itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.side not in SIDES:
            raise PipelineError(f"data.side: {self.side!r} is unknown; choose one of {', '.join(SIDES)}")
