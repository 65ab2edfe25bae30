"""The `bpe` and `data` blocks of params.yaml, checked when they are built."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pipeline.checks import Checked, Natural, Positive, ProperShare, Range

Side = Literal["raw", "distilled", "both", "synthetic"]


@dataclass(frozen=True)
class BpeSettings(Checked):
    """Byte-pair encoding by SentencePiece."""

    vocabulary: Positive = 3000
    """Size of the vocabulary (of each of the two if not joint), special ids included."""
    joint: bool = True
    """One vocabulary for both languages (required to tie all embeddings) or one per side."""
    character_coverage: Annotated[float, Range(at_least=0.9, at_most=1)] = 1.0
    """Share of the training text's characters that get a piece; 0.9995 suits scripts with thousands of characters."""
    max_length: Positive = 256
    """Training pairs with more pieces than this on either side are dropped, and counted."""
    sample: Positive = 2_000_000
    """The most lines from which the vocabulary is learned, at about 0.5 KB of memory each; of a larger corpus they are
    evenly spaced."""


@dataclass(frozen=True)
class DataSettings(Checked):
    """The training data of a family."""

    side: Side = "raw"
    """Targets: `raw` (the corpus's), `distilled` (the teacher's) or `both`; or `synthetic` pairs (`corpus.noise`)."""
    batch_tokens: Positive = 600
    """Target tokens of one optimiser step over all devices and accumulated batches, padding included."""
    workers: Natural = 0
    """Processes that collate batches; 0: the training process itself."""
    bpe_dropout: ProperShare = 0.0
    """Probability with which a merge of the byte-pair encoding is left out in training (Provilkov et al. 2020), drawn
    anew for every sentence in every epoch. Batches then have more tokens than `batch_tokens`."""
