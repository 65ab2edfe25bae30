"""The settings of a Transformer (no torch here: the command line reads this at start-up)."""

from dataclasses import dataclass

from pipeline.checks import Checked, Natural, Positive, ProperShare
from pipeline.errors import PipelineError

NORMS = ("pre", "post")
TIES = ("all", "target", "none")
POSITIONS = ("sinusoidal", "learned")
ACTIVATIONS = ("relu", "gelu")


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
    norm: str = "pre"
    """Layer normalisation before each block (`pre`) or after its residual sum (`post`)."""
    tied_embeddings: str = "all"
    """`all`: source, target and output share one matrix (joint vocabulary); `target`: target and output; `none`."""
    positions: str = "sinusoidal"
    """`sinusoidal` (an order with negative positions gets the odd continuation of the sine) or `learned`."""
    activation: str = "relu"
    dropout: ProperShare = 0.1
    """On embeddings and on the output of every block."""
    attention_dropout: ProperShare = 0.0
    """On the attention weights."""
    max_length: Positive = 256
    """Longest source and longest target in pieces, end symbol included."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, allowed in (("norm", NORMS), ("tied_embeddings", TIES), ("positions", POSITIONS),
                              ("activation", ACTIVATIONS)):
            if getattr(self, name) not in allowed:
                raise PipelineError(f"network.{name}: {getattr(self, name)!r} is unknown; "
                                f"choose one of {', '.join(allowed)}")
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
