"""Families that generate their target step by step, in an order."""

from dataclasses import dataclass
from typing import Any

from pipeline.checks import Refused
from pipeline.families.settings import FamilySettings, plain
from pipeline.model.settings import OrderSettings


@dataclass(frozen=True)
class Settings(FamilySettings):
    """An ordered family."""

    order: OrderSettings | None = None
    """In which it generates."""

    def __post_init__(self) -> None:
        if self.order is None:
            raise Refused(f"order: is missing; a family of kind {self.kind} must name it")
        super().__post_init__()

    def arguments(self) -> dict[str, Any]:
        return {"order": plain(self.order)}
