"""What the engine needs from a network: its parameters, and how they are used."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

Block = Sequence[Tensor]
"""Weight and bias of a normalisation, and of two linear maps; their matrices are (in, out)."""
RELU, GELU, SWISH = range(3)
"""Activation functions."""


class PlainWeights(NamedTuple):
    """The parameters of an encoder-decoder, without gradients."""

    encoder: Sequence[Sequence[Block]]
    """Of each layer self-attention and feed-forward; no layers: its sources are encoded by another network."""
    decoder: Sequence[Sequence[Block]]
    """Of each layer self-attention, attention to the source and feed-forward."""
    source_embedding: Tensor | None
    """(V, D); None where there is no encoder."""
    target_embedding: Tensor
    """(V, D)."""
    scale: float
    """The factor of embeddings."""
    source_positions: Tensor
    """(S, D)."""
    target_positions: Tensor
    """(T, D), one row per slot."""
    encoder_norm: Tensor
    """(2, D), weight and bias of the final normalisation; not read if the layers are post-norm."""
    decoder_norm: Tensor
    """(2, D), like `encoder_norm`."""
    source_keys_values: tuple[Tensor, Tensor]
    """Weight (D, L * 2 * D) and bias of the projection of encoded sources."""
    projection: Tensor
    """(V, D), onto the vocabulary."""
    output_bias: Tensor | None
    """(V,), added to the logits; None: nothing is added."""
    visible: Tensor
    """(T, T), true where a slot may see another."""
    heads: int
    """Of attention."""
    pre: bool
    """Whether normalisation comes before each block."""
    activation: int
    """`RELU`, `GELU` or `SWISH`, of the feed-forward blocks."""
    keeps: bool
    """Whether keys and values of tokens stay valid when more tokens are read."""
    rounded: bool
    """Whether the matrices, and the rows that they multiply, are rounded to 8 bits."""


class Openable(Protocol):
    """A network that the engine can open: a module whose search consists of the parts that `Compiled` replaces."""

    training: bool
    generation: int
    """A number that changes whenever the parameters may have changed."""

    def plain_weights(self) -> PlainWeights:
        """Its present parameters."""


class Around(Protocol):
    """A model around networks that the engine can open."""

    def with_opened(self, open_engine: Callable[[Any], Any]) -> Any:
        """The model that searches use: the same around its opened networks."""
