"""What the analyses ask, as plain numbers: the block `analyses` of params.yaml."""

from dataclasses import dataclass, field

from pipeline.errors import PipelineError


@dataclass(frozen=True)
class DraftAnalysesSettings:
    """The Aggressive Decoding paper's analyses. Speeds are against the baseline's beam 5."""

    drafter: str = "drafter"
    """The family whose block and acceptance are varied."""
    decoders: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"drafter": ("gad",)})
    """By family the entries of `decoders` whose speed a sentence and peak memory are looked into; of drafters, where
    the time goes besides."""
    blocks: tuple[int, ...] = (2, 4, 6, 8, 12)
    """k, tokens a draft, at which exact acceptance is measured (Table 6)."""
    betas: tuple[int, ...] = (3, 5)
    taus: tuple[float, ...] = (1.0, 2.0, 3.0, 5.0)
    """Relaxed acceptance is measured at every pair of them, with the drafter's own k (Table 7)."""
    sizes: tuple[str, ...] = ("drafter",)
    """Drafters to be compared in size, and over their training."""
    sentences: int = 24
    """Sentences to time, evenly spaced over the lengths of their sources."""
    validation_sentences: int = 200
    """Sentences of the validation split, the first ones, that acceptance and BLEU are over in Tables 6 and 7."""
    repetitions: int = 3
    """Rounds over the timed sentences; the median of a sentence counts."""

    def __post_init__(self) -> None:
        for name in ("sentences", "validation_sentences", "repetitions"):
            if getattr(self, name) < 1:
                raise PipelineError(f"analyses.drafting.{name}: {getattr(self, name)} must be at least 1")
        for name in ("blocks", "betas"):
            if min(getattr(self, name), default=0) < 1:
                raise PipelineError(f"analyses.drafting.{name}: {list(getattr(self, name))} must be numbers of at "
                                    "least 1")
        if not self.taus or not min(self.taus) >= 0:
            raise PipelineError(f"analyses.drafting.taus: {list(self.taus)} must be numbers of at least 0")


@dataclass(frozen=True)
class JacobiAnalysesSettings:
    """The Jacobi paper's analysis, of the baseline."""

    sentences: int = 100
    """The first long ones of the test split, as `speed.long_tokens` calls them long."""

    def __post_init__(self) -> None:
        if self.sentences < 1:
            raise PipelineError(f"analyses.jacobi.sentences: {self.sentences} must be at least 1")


@dataclass(frozen=True)
class AnalysesSettings:
    """The papers' analyses. What names a family that is not among the systems is left out.

    All but `drafting` and `jacobi` is of the lattice paper.
    """

    lattice: str = "lattice"
    """The family whose candidates, search and time are looked into."""
    nat: str = "nat"
    """The masked family whose own best words its candidates are compared with."""
    candidates: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    """Words a position, K, at which recall is measured."""
    decoder: str = "lattice64"
    """The entry of `decoders` whose search and time are looked into, and that lattices of several depths are compared
    under."""
    lattice_layers: tuple[str, ...] = ("lattice",)
    """Lattice families that differ in their `decoder_layers`."""
    nat_layers: tuple[str, ...] = ("nat",)
    """Masked families that differ in their `decoder_layers`; each counts under the first of its decoders."""
    sentences: int = 60
    """Test sentences whose time is taken apart, spread over the lengths of their translations."""
    bin_words: int = 10
    """Target lengths that share a bin."""
    repetitions: int = 5
    """Rounds over the sentences; the median of each part of a sentence counts."""
    drafting: DraftAnalysesSettings = field(default_factory=DraftAnalysesSettings)
    jacobi: JacobiAnalysesSettings = field(default_factory=JacobiAnalysesSettings)

    def __post_init__(self) -> None:
        for name in ("sentences", "bin_words", "repetitions"):
            if getattr(self, name) < 1:
                raise PipelineError(f"analyses.{name}: {getattr(self, name)} must be at least 1")
        if not self.candidates or min(self.candidates) < 1:
            raise PipelineError(f"analyses.candidates: {list(self.candidates)} must be numbers of at least 1")
