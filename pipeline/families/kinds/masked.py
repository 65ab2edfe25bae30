"""Conditional masked language models, which Mask-Predict decodes."""

from dataclasses import dataclass
from typing import Any, Literal

from pipeline.families.settings import FamilySettings

Masking = Literal["uniform", "all"]


@dataclass(frozen=True)
class Settings(FamilySettings):
    """A masked family."""

    kind: str = "masked"
    masking: Masking = "uniform"
    """How many target tokens it learns to fill in: a `uniform` number (Mask-Predict) or always `all` (vanilla
    non-autoregressive translation)."""

    def arguments(self) -> dict[str, Any]:
        return {"masking": self.masking}
