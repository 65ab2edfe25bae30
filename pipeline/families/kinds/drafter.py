"""Models that propose the next k tokens at once, for an ordered family to verify."""

from dataclasses import dataclass

from pipeline.families.settings import DraftingFamily


@dataclass(frozen=True)
class Settings(DraftingFamily):
    """A drafter; without encoder layers of its own it reads its verifier's encoder."""

    kind: str = "drafter"
    needs_encoder = False
