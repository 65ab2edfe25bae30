"""The `analyses` block of params.yaml (no torch here)."""

from dataclasses import dataclass

from pipeline.errors import PipelineError


@dataclass(frozen=True)
class AnalysesSettings:
    """The analyses of the lattice. What names a family that is not among the systems is left out."""

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
    repetitions: int = 3
    """Rounds over the sentences; the median of each part of a sentence counts."""

    def __post_init__(self) -> None:
        for name in ("sentences", "bin_words", "repetitions"):
            if getattr(self, name) < 1:
                raise PipelineError(f"analyses.{name}: {getattr(self, name)} must be at least 1")
        if not self.candidates or min(self.candidates) < 1:
            raise PipelineError(f"analyses.candidates: {list(self.candidates)} must be numbers of at least 1")
