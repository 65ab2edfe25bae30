"""Scorers of a lattice of candidates, all positions at once. The counts propose the candidates."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import layout
from pipeline.families.settings import DraftingFamily


@dataclass(frozen=True)
class Settings(DraftingFamily):
    """A lattice family; `drafting` may name a family for which its candidates are drafts."""

    kind: str = "lattice"
    table = "lattices"
    drafting_keys = ("verifier",)
    must_draft = False

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "counts": str(layout.counts(self.data.side))}

    def inputs(self) -> list[Path]:
        return [layout.counts(self.data.side)]
