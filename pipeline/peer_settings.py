"""Searches of other libraries, as plain values: the block `peers` of params.yaml."""

from dataclasses import dataclass

from pipeline.checks import Checked, Natural, Positive
from pipeline.errors import PipelineError

FAMILY = "peer"
"""What they stand under in reports, where a family's name stands otherwise."""
LIBRARIES = ("hf", "ctranslate2")
QUANTIZATIONS = ("float32", "int8")


@dataclass(frozen=True)
class PeerSettings(Checked):
    """A search of another library with the baseline's weights."""

    library: str
    """`hf`: `generate` of Hugging Face's transformers; `ctranslate2`."""
    beams: Positive = 1
    """1: greedy search. Scores are divided by the length, as by `length_penalty: {kind: average, alpha: 1.0}`."""
    prompt_lookup: Natural = 0
    """Tokens that `generate` proposes at once from what stands in its prompt; 0: it does not (hf only)."""
    quantization: str = "float32"
    """Of the matrices: float32 or int8 (ctranslate2 only)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.library not in LIBRARIES:
            raise PipelineError(f"peers: library {self.library!r} is unknown; choose one of {', '.join(LIBRARIES)}")
        if self.quantization not in QUANTIZATIONS:
            raise PipelineError(f"peers: quantization {self.quantization!r} is unknown; choose one of "
                                f"{', '.join(QUANTIZATIONS)}")
        if self.prompt_lookup and (self.library != "hf" or self.beams > 1):
            raise PipelineError("peers: prompt_lookup is greedy search of the library hf; leave it or beams out")
        if self.quantization != "float32" and self.library != "ctranslate2":
            raise PipelineError(f"peers: quantization {self.quantization} is of the library ctranslate2; leave it out")
