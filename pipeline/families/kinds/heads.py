"""Heads on an ordered family that predict the tokens after its next one."""

from dataclasses import dataclass

from pipeline.checks import Refused
from pipeline.families.settings import DraftingFamily


@dataclass(frozen=True)
class Settings(DraftingFamily):
    """A family of heads; its `start` is the verifier from whose states they predict."""

    kind: str = "heads"
    drafting_keys = ("verifier", "block", "chained", "labels")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.drafting is not None and self.drafting.block < 2:
            raise Refused(f"drafting.block: {self.drafting.block} leaves no token to draft; heads need 2 or more")

    @property
    def takes_weights(self) -> bool:
        """False: the module takes all of its verifier's weights itself."""
        return False
