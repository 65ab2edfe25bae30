"""Conditional masked language models, which Mask-Predict decodes."""

from dataclasses import dataclass
from typing import Any, Literal

from pipeline.checks import Refused, Share
from pipeline.families.settings import FamilySettings

Masking = Literal["uniform", "all"]


@dataclass(frozen=True)
class Settings(FamilySettings):
    """A masked family."""

    kind: str = "masked"
    masking: Masking = "uniform"
    """How many target tokens it learns to fill in: a `uniform` number (Mask-Predict) or always `all` (vanilla
    non-autoregressive translation)."""
    glancing: tuple[Share, Share] = (0.0, 0.0)
    """With masking `all`: the share of its wrong words that is revealed to it in training, at the first and at the last
    step (Qian et al. 2021)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(self.glancing) and self.masking != "all":
            raise Refused(f"glancing: {list(self.glancing)} reveals words where all are masked; set "
                          "masking to all, or remove glancing")

    def arguments(self) -> dict[str, Any]:
        return {"masking": self.masking, "glancing": list(self.glancing)}
