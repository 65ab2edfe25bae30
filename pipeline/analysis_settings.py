"""What the analyses ask, as plain numbers: the block `analyses` of params.yaml."""

from dataclasses import dataclass, field
from typing import Annotated

from pipeline.checks import Amount, Checked, NotEmpty, Positive

Positives = Annotated[tuple[Positive, ...], NotEmpty()]


@dataclass(frozen=True)
class DraftAnalysesSettings(Checked):
    """The Aggressive Decoding paper's analyses. Speeds are against the baseline's beam 5."""

    drafter: str = "drafter"
    """The family whose block and acceptance are varied."""
    decoders: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"drafter": ("gad",)})
    """By family the entries of `decoders` whose speed a sentence and peak memory are looked into; of drafters, where
    the time goes besides."""
    blocks: Positives = (2, 4, 6, 8, 12)
    """k, tokens a draft, at which exact acceptance is measured (Table 6)."""
    betas: Positives = (3, 5)
    taus: Annotated[tuple[Amount, ...], NotEmpty()] = (1.0, 2.0, 3.0, 5.0)
    """Relaxed acceptance is measured at every pair of them, with the drafter's own k (Table 7)."""
    sizes: tuple[str, ...] = ("drafter",)
    """Drafters to be compared in size."""
    sentences: Positive = 24
    """Sentences to time, evenly spaced over the lengths of their sources."""
    validation_sentences: Positive = 200
    """Sentences of the validation split, the first ones, that acceptance and BLEU are over in Tables 6 and 7."""
    repetitions: Positive = 3
    """Rounds over the timed sentences; the median of a sentence counts."""


@dataclass(frozen=True)
class JacobiAnalysesSettings(Checked):
    """The Jacobi paper's analysis, of the baseline."""

    sentences: Positive = 100
    """The first long ones of the test split, as `speed.long_tokens` calls them long."""


@dataclass(frozen=True)
class AnalysesSettings(Checked):
    """The papers' analyses. What names a family that is not among the systems is left out.

    All but `drafting` and `jacobi` is of the lattice paper.
    """

    lattice: str = "lattice"
    """The family whose candidates, search and time are looked into."""
    nat: str = "nat"
    """The masked family whose own best words its candidates are compared with."""
    candidates: Positives = (1, 2, 4, 8, 16, 32, 64, 128)
    """Words a position, K, at which recall is measured."""
    decoder: str = "lattice64"
    """The entry of `decoders` whose search and time are looked into, and that lattices of several depths are compared
    under."""
    lattice_layers: tuple[str, ...] = ("lattice",)
    """Lattice families that differ in their `decoder_layers`."""
    nat_layers: tuple[str, ...] = ("nat",)
    """Masked families that differ in their `decoder_layers`; each counts under the first of its decoders."""
    sentences: Positive = 60
    """Test sentences whose time is taken apart, spread over the lengths of their translations."""
    bin_words: Positive = 10
    """Target lengths that share a bin."""
    repetitions: Positive = 5
    """Rounds over the sentences; the median of each part of a sentence counts."""
    drafting: DraftAnalysesSettings = field(default_factory=DraftAnalysesSettings)
    jacobi: JacobiAnalysesSettings = field(default_factory=JacobiAnalysesSettings)
