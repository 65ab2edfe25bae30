"""The settings of the analyses: the block `analyses` of params.yaml."""

import pkgutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pipeline.checks import Amount, Checked, NotEmpty, Positive, Refused

PAPERS = tuple(found.name for found in pkgutil.iter_modules([str(Path(__file__).parent / "evaluation/analyses")])
               if found.ispkg)
"""The packages of analyses, one per paper."""
Positives = Annotated[tuple[Positive, ...], NotEmpty()]


@dataclass(frozen=True)
class DraftAnalysesSettings(Checked):
    """The Aggressive Decoding paper's analyses. Speeds are relative to the baseline's beam search with five beams."""

    drafter: str = "drafter"
    """The family whose block and acceptance are varied."""
    decoders: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"drafter": ("gad",)})
    """Per family, the entries of `decoders` whose speed per sentence and peak memory are measured; for drafters, the
    time of each part is measured too."""
    blocks: Positives = (2, 4, 6, 8, 12)
    """Values of k, tokens per draft, at which exact acceptance is measured (Table 6)."""
    betas: Positives = (3, 5)
    taus: Annotated[tuple[Amount, ...], NotEmpty()] = (1.0, 2.0, 3.0, 5.0)
    """Relaxed acceptance is measured at every pair of beta and tau, with the drafter's own k (Table 7)."""
    sizes: tuple[str, ...] = ("drafter",)
    """Drafters of several sizes to compare."""
    sentences: Positive = 24
    """Sentences to time, evenly spaced over the lengths of their sources."""
    validation_sentences: Positive = 200
    """The number of validation sentences, from the first, over which Tables 6 and 7 measure acceptance and BLEU."""
    repetitions: Positive = 3
    """Rounds over the timed sentences; the median per sentence counts."""


@dataclass(frozen=True)
class JacobiAnalysesSettings(Checked):
    """The Jacobi paper's analysis, of the baseline."""

    sentences: Positive = 100
    """The number of long test sentences, from the first; `speed.long_tokens` defines long."""


@dataclass(frozen=True)
class AnalysesSettings(Checked):
    """The papers' analyses; those of a family that is not among the systems are left out.

    All settings but `papers`, `drafting` and `jacobi` belong to the lattice paper.
    """

    papers: tuple[str, ...] = PAPERS
    """The papers whose analyses are made: packages of `pipeline/evaluation/analyses`."""
    lattice: str = "lattice"
    """The family whose candidates, search and time are measured."""
    nat: str = "nat"
    """The masked family whose own top-k tokens its candidates are compared with."""
    candidates: Positives = (1, 2, 4, 8, 16, 32, 64, 128)
    """Values of K, tokens per position, at which recall is measured."""
    decoder: str = "lattice64"
    """The entry of `decoders` whose search and time are measured, and under which lattices of several depths are
    compared."""
    lattice_layers: tuple[str, ...] = ("lattice",)
    """Lattice families that differ in their `decoder_layers`."""
    nat_layers: tuple[str, ...] = ("nat",)
    """Masked families that differ in their `decoder_layers`; each is measured under the first of its decoders."""
    sentences: Positive = 60
    """Test sentences whose time is broken down, evenly spaced over the lengths of their translations."""
    validation_sentences: Positive = 200
    """Validation sentences, evenly spaced over their lengths, on which shares of the prior and windows are compared."""
    bin_words: Positive = 10
    """Target lengths that share a bin."""
    repetitions: Positive = 5
    """Rounds over the sentences; the median of each part of a sentence's time counts."""
    drafting: DraftAnalysesSettings = field(default_factory=DraftAnalysesSettings)
    jacobi: JacobiAnalysesSettings = field(default_factory=JacobiAnalysesSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.papers:
            if name not in PAPERS:
                raise Refused(f"papers: {name!r} is unknown; choose from {', '.join(PAPERS)}")
