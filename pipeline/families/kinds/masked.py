"""Conditional masked language models, which Mask-Predict decodes."""

from dataclasses import dataclass
from typing import Any

from pipeline.errors import PipelineError
from pipeline.families.settings import FamilySettings

MASKINGS = ("uniform", "all")


@dataclass(frozen=True)
class Settings(FamilySettings):
    """A masked family."""

    kind: str = "masked"
    masking: str = "uniform"
    """Which target words it learns to fill in: a `uniform` number of them (Mask-Predict) or `all`, always (vanilla
    non-autoregressive translation)."""

    def __post_init__(self) -> None:
        if self.masking not in MASKINGS:
            raise PipelineError(f"families: masking {self.masking!r} is unknown; choose one of {', '.join(MASKINGS)}")
        super().__post_init__()

    def arguments(self) -> dict[str, Any]:
        return {"masking": self.masking}
