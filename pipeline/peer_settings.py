"""Settings of other libraries' searches: the block `peers` of params.yaml."""

from dataclasses import dataclass
from typing import Literal

from pipeline.checks import Checked, Natural, Positive
from pipeline.errors import PipelineError

FAMILY = "peer"
"""Stands for a family's name in the reports of peers."""


@dataclass(frozen=True)
class PeerSettings(Checked):
    """A search of another library with the baseline's weights."""

    library: Literal["hf", "ctranslate2"]
    """`hf` is `generate` of Hugging Face's transformers."""
    beams: Positive = 1
    """1: greedy search. Scores are divided by the length, as by `length_penalty: {kind: average, alpha: 1.0}`."""
    prompt_lookup: Natural = 0
    """Tokens that `generate` drafts at once from its prompt (hf only); 0: it drafts none."""
    quantization: Literal["float32", "int8"] = "float32"
    """Format of the matrices (ctranslate2 only)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompt_lookup and (self.library != "hf" or self.beams > 1):
            raise PipelineError("peers: prompt_lookup is greedy search of the library hf; leave it or beams out")
        if self.quantization != "float32" and self.library != "ctranslate2":
            raise PipelineError(f"peers: quantization {self.quantization} is of the library ctranslate2; leave it out")
