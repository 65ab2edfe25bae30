"""The settings of a Transformer (no torch here: the command line reads this at start-up)."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from pipeline.checks import Checked, Natural, Positive, ProperShare
from pipeline.errors import PipelineError

Norm = Literal["pre", "post"]
Ties = Literal["all", "target", "none"]
PositionVectors = Literal["sinusoidal", "learned"]
Activation = Literal["relu", "gelu", "swish"]
NORMS, TIES, POSITIONS, ACTIVATIONS = map(get_args, (Norm, Ties, PositionVectors, Activation))


class Copies(NamedTuple):
    """The number of a wide network's units that repeat each unit of a narrow one."""

    width: int
    heads: int
    head_units: int
    """Of the units of one head."""
    feed_forward: int


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

    def copies_of(self, narrow: "NetworkSettings") -> Copies | None:
        """How this network repeats the units of a narrower one; None: it is not wider, or no multiple of it.

        >>> NetworkSettings(512, 8, 2048, positions="learned").copies_of(NetworkSettings(256, 4, 1024))
        Copies(width=2, heads=2, head_units=1, feed_forward=2)

        Raises:
            PipelineError: it is a multiple, but the wide network cannot compute what the narrow one does.
        """
        own, given = ((one.width, one.heads, one.width // one.heads, one.feed_forward) for one in (self, narrow))
        if own == given or any(wide % few for wide, few in zip(own, given, strict=True)):
            return None
        copies = Copies(*(wide // few for wide, few in zip(own, given, strict=True)))
        if copies.width > 1:
            # The sinusoids of another width are other functions, and a table without a gradient keeps them.
            for key, value, needed in (("positions", self.positions, "learned"), ("norm", self.norm, "pre")):
                if value != needed:
                    raise PipelineError(f"network.{key}: {value}: a network that begins with the weights of a narrower "
                                        f"one needs {needed}")
        return copies


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
