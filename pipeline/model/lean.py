"""The layers again, as flat tensor operations without modules or gradients: what search runs.

With a small model or a small batch, half of a decoder step is not arithmetic but Python between operations: module
calls, attribute look-ups, reshapes of (B, n, D). Here the weights of all layers are gathered once, and a step works on
(rows, D). Training reads the weights through `layers`, and few rows of a small model on a CPU are one compiled call
(`few`); the tests hold all of them to the same logits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.model.layers import DecoderLayer, EncoderLayer, Residual, attend
from pipeline.model.state import State


class Block(NamedTuple):
    """A normalisation and the two linear maps of a block; the matrices are transposed views, (in, out)."""

    norm_weight: Tensor
    norm_bias: Tensor
    weight_in: Tensor
    bias_in: Tensor
    weight_out: Tensor
    bias_out: Tensor


class Alone(NamedTuple):
    """Self-attention of a row that sees itself alone: its softmax has one key, so it is a single linear map."""

    weight: Tensor  # (in, out)
    bias: Tensor


EncoderBlocks = Sequence[tuple[Block, Block]]
"""Self-attention and feed-forward, a layer."""
DecoderBlocks = Sequence[tuple[Block, Block, Block]]
"""Self-attention, attention to the source and feed-forward, a layer."""


class Style(NamedTuple):
    """What is the same in all layers."""

    pre: bool
    relu: bool
    heads: int


def block(around: Residual, first: nn.Linear, last: nn.Linear) -> Block:
    """Gather the weights of one block, without copying: later changes of the parameters show."""
    return Block(around.norm.weight.detach(), around.norm.bias.detach(), first.weight.detach().t(),
                 first.bias.detach(), last.weight.detach().t(), last.bias.detach())


def encoder_blocks(layer: EncoderLayer) -> tuple[Block, Block]:
    attention, feed_forward = layer.self_attention, layer.feed_forward
    return (block(layer.around_self_attention, attention.queries_keys_values, attention.output),
            block(layer.around_feed_forward, feed_forward.inner, feed_forward.outer))


def decoder_blocks(layer: DecoderLayer) -> tuple[Block, Block, Block]:
    own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
    return (block(layer.around_self_attention, own.queries_keys_values, own.output),
            block(layer.around_cross_attention, cross.queries, cross.output),
            block(layer.around_feed_forward, feed_forward.inner, feed_forward.outer))


def alone(own: Block) -> Alone:
    """The values' map followed by the output's, of a self-attention block; later changes of the weights do not show."""
    values = own.weight_in.shape[0] * 2
    weight = own.weight_in[:, values:] @ own.weight_out
    bias = torch.addmv(own.bias_out, own.weight_out.t(), own.bias_in[values:])
    return Alone(weight.t().contiguous().t(), bias)


def encode(x: Tensor, layers: EncoderBlocks, style: Style, mask: Tensor | None) -> Tensor:
    """All encoder layers.

    Args:
        x: (B, S, D) embeddings.
        mask: (B, 1, 1, S), true where there is a piece; None: everywhere.

    Returns:
        (B, S, D), before the final normalisation.
    """
    B, S, D = x.shape
    x = x.reshape(B * S, D)
    for attention, feed_forward in layers:
        projected = _enter(x, attention, style).view(B, S, 3, style.heads, D // style.heads)
        queries, keys, values = projected.permute(2, 0, 3, 1, 4).unbind(0)
        x = _leave(x, attend(queries, keys, values, mask), attention, style)
        x = _feed_forward(x, feed_forward, style)
    return x.view(B, S, D)


def decode(x: Tensor, layers: DecoderBlocks, style: Style, state: State, mask: Tensor | None) -> Tensor:
    """All decoder layers over the next n tokens of every row; their keys and values join the state.

    Args:
        x: (R, n, D) embeddings.
        mask: broadcast to (R, heads, n, T), true where a token may see another; None: everywhere.

    Returns:
        (R * n, D), before the final normalisation.
    """
    R, n, D = x.shape
    x = x.reshape(R * n, D)
    depth = D // style.heads
    B = state.source.shape[2]
    for index, (own, cross, feed_forward) in enumerate(layers):
        projected = _enter(x, own, style).view(R, n, 3, style.heads, depth).permute(2, 0, 3, 1, 4)
        keys, values = state.append(index, projected[1:]).unbind(0)
        x = _leave(x, attend(projected[0], keys, values, mask), own, style)
        # The beams of a sentence are neighbours and share its keys and values: they are queries of one batch entry.
        queries = _enter(x, cross, style).view(B, R // B * n if B else 0, style.heads, depth).transpose(1, 2)
        keys, values = state.source[index].unbind(0)
        x = _leave(x, attend(queries, keys, values, state.source_mask), cross, style)
        x = _feed_forward(x, feed_forward, style)
    return x


def score(x: Tensor, layers: DecoderBlocks, alone: Sequence[Alone], style: Style,
          source: Tensor, mask: Tensor | None) -> Tensor:
    """All decoder layers over tokens that see the source and themselves, but not each other.

    Args:
        x: (B, m, D) embeddings.
        alone: the self-attention of every layer.
        source: (L, 2, B, heads, S, D / heads), the keys and values of the source.
        mask: (B, 1, 1, S), true where there is a piece; None: everywhere.

    Returns:
        (B * m, D), before the final normalisation.
    """
    B, m, D = x.shape
    x = x.reshape(B * m, D)
    for (own, cross, feed_forward), itself, (keys, values) in zip(layers, alone, source, strict=True):
        x = torch.addmm(itself.bias, _norm(x, own) if style.pre else x, itself.weight).add_(x)
        x = x if style.pre else _norm(x, own)
        queries = _enter(x, cross, style).view(B, m, style.heads, D // style.heads).transpose(1, 2)
        x = _leave(x, attend(queries, keys, values, mask), cross, style)
        x = _feed_forward(x, feed_forward, style)
    return x


def _norm(x: Tensor, block: Block) -> Tensor:
    return torch.layer_norm(x, (x.shape[1],), block.norm_weight, block.norm_bias)


def _enter(x: Tensor, block: Block, style: Style) -> Tensor:
    """The first linear map, behind the normalisation where that comes first."""
    return torch.addmm(block.bias_in, _norm(x, block) if style.pre else x, block.weight_in)


def _leave(x: Tensor, attended: Tensor, block: Block, style: Style) -> Tensor:
    """The last linear map of attention (B, heads, m, d) and the residual sum."""
    flat = attended.transpose(1, 2).reshape(x.shape)
    x = torch.addmm(block.bias_out, flat, block.weight_out).add_(x)
    return x if style.pre else _norm(x, block)


def _feed_forward(x: Tensor, block: Block, style: Style) -> Tensor:
    inner = _enter(x, block, style)
    inner = inner.relu_() if style.relu else F.gelu(inner)
    x = torch.addmm(block.bias_out, inner, block.weight_out).add_(x)
    return x if style.pre else _norm(x, block)
