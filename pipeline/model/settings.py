"""The settings of a Transformer (no torch here: the command line reads this at start-up)."""

from dataclasses import dataclass
from typing import Literal, get_args

from pipeline.checks import Checked, Natural, Positive, ProperShare
from pipeline.errors import PipelineError

Norm = Literal["pre", "post"]
Ties = Literal["all", "target", "none"]
PositionVectors = Literal["sinusoidal", "learned"]
Activation = Literal["relu", "gelu", "swish"]
NORMS, TIES, POSITIONS, ACTIVATIONS = map(get_args, (Norm, Ties, PositionVectors, Activation))


@dataclass(frozen=True)
class NetworkSettings(Checked):
    """Shape and regularisation of the Transformer of Vaswani et al. (2017)."""

    width: Positive = 512
    """Model dimension d."""
    heads: Positive = 8
    """Attention heads; they divide `width`."""
    feed_forward: Positive = 2048
    """Inner dimension of the feed-forward blocks."""
    encoder_layers: Natural = 6
    """0: none, only in a drafter, which then reads its verifier's encoder."""
    decoder_layers: Positive = 6
    norm: Norm = "pre"
    """Layer normalisation before each block (`pre`) or after its residual sum (`post`)."""
    tied_embeddings: Ties = "all"
    """`all`: source, target and output share one matrix (joint vocabulary); `target`: target and output; `none`."""
    positions: PositionVectors = "sinusoidal"
    """`sinusoidal` (an order with negative positions gets the odd continuation of the sine) or `learned`."""
    activation: Activation = "relu"
    dropout: ProperShare = 0.1
    """On embeddings and on the output of every block."""
    attention_dropout: ProperShare = 0.0
    """On the attention weights."""
    max_length: Positive = 256
    """Longest source and longest target in pieces, end symbol included."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads or self.width % 2:
            raise PipelineError(f"network.width: {self.width} must be even and divisible by "
                                f"network.heads = {self.heads}")


@dataclass(frozen=True)
class OrderSettings(Checked):
    """A generation order by name; see `pipeline.model.orders`."""

    name: str
    """left_to_right, right_to_left, interleaved, multi_directional, double_token, …"""
    directions: Positive | None = None
    """h, the ends from which words are generated at once; None: as the name requires (multi_directional: 4)."""
    words: Positive | None = None
    """c, the words that each direction produces per step; None: as the name requires, or 1."""


@dataclass(frozen=True)
class VocabularySettings(Checked):
    """The vocabulary that a model was built for."""

    source: Positive
    """Pieces."""
    target: Positive
    """Pieces."""
    digest: str
    """SHA-256 of its files, because different vocabularies may have equal sizes."""
