"""The layers again, as flat tensor operations without modules or gradients: what search runs.

With a small model or a small batch, half of a decoder step is not arithmetic but Python between operations: module
calls, attribute look-ups, reshapes of (B, n, D). Here the weights of all layers are gathered once, and a step works on
(rows, D). Few rows of a small model on a CPU are one compiled call (`pipeline.kernels`). Training reads the weights
through `layers`; the tests hold all of them to the same logits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.kernels.packing import are_few, is_short, pack_decoder, pack_encoder, pack_source
from pipeline.kernels.reading import Bools, Packed, PackedEncoder, PackedSource, Reading
from pipeline.model.layers import DecoderLayer, EncoderLayer, Residual, attend
from pipeline.model.state import Floats, Ints, State

_EVERYTHING = np.zeros((0, 1, 0), np.bool_)


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


class Weights(NamedTuple):
    """All that search reads again and again."""

    encoder: EncoderBlocks
    decoder: DecoderBlocks
    packed: Packed | None  # None where steps are not to be compiled
    packed_encoder: PackedEncoder | None  # … where the encoder is not
    packed_source: PackedSource | None  # … where the projection of its states is not
    source_positions: Tensor  # (S, D)
    target_positions: Tensor  # (T, D), a row a slot


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


def pack(decoder: DecoderBlocks, embeddings: Tensor, positions: Tensor, norm: nn.Module, projection: Tensor,
         rounded: bool = False) -> Packed | None:
    """A decoder as compiled code reads it; None where its steps are not to be compiled.

    Args:
        decoder: its layers.
        embeddings: (V, D), scaled.
        positions: (T, D), a row a slot.
        norm: the final normalisation, or the identity.
        projection: (V, D).
        rounded: see `packing.pack_decoder`.
    """
    if not decoder or not readable(embeddings):
        return None
    return pack_decoder(_arrays(decoder), *_tables(embeddings, positions, norm), projection.t().detach().numpy(),
                        rounded=rounded)


def pack_sources(encoder: EncoderBlocks, embeddings: Tensor, positions: Tensor,
                 norm: nn.Module) -> PackedEncoder | None:
    """An encoder as compiled code reads it; None where it is not to be compiled. See `pack` for the arguments."""
    if not encoder or not readable(embeddings):
        return None
    return pack_encoder(_arrays(encoder), *_tables(embeddings, positions, norm))


def pack_projection(projection: nn.Linear) -> PackedSource | None:
    """The projection of encoded sources as compiled code reads it; None where it is not to be compiled."""
    if not readable(projection.weight):
        return None
    return pack_source(projection.weight.detach().t().numpy(), projection.bias.detach().numpy())


def _arrays(layers: Sequence[Sequence[Block]]) -> list[list[list[Floats]]]:
    return [[[part.detach().numpy() for part in one] for one in layer] for layer in layers]


def _tables(embeddings: Tensor, positions: Tensor, norm: nn.Module) -> tuple[Floats, Floats, Floats]:
    """Embeddings, positions, and weight and bias of the norm (2, D), anything where it has none."""
    last = torch.stack(list(norm.parameters()) or [positions[0]] * 2)
    return embeddings.detach().numpy(), positions.detach().numpy(), last.detach().numpy()


def readable(weights: Tensor) -> bool:
    """Whether compiled code can read them."""
    return weights.device.type == "cpu" and weights.dtype in (torch.float32, torch.float64)


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


def encode_few(source: Tensor, weights: Weights, style: Style, mask: Tensor | None) -> Tensor | None:
    """Everything between the ids of few short sentences and their states in one call, final normalisation included.

    Args:
        source: (B, S) ids.
        mask: (B, 1, 1, S), true where there is a piece; None: everywhere.

    Returns:
        (B, S, D); None where it is not to be compiled: more pieces, or ones that are refused, which torch refuses too.
    """
    packed = weights.packed_encoder
    if packed is None or not is_short(source.numel(), packed.positions.shape[1]):
        return None
    from pipeline.kernels.encoder import encode  # numba: half a second that training does not need
    states = np.empty((*source.shape, packed.positions.shape[1]), packed.positions.dtype)
    known = encode(source.contiguous().numpy(), packed, style.heads, style.pre, style.relu, seen(mask), states)
    return torch.from_numpy(states) if known else None


def project_few(states: Tensor, weights: Weights, style: Style) -> Tensor | None:
    """The keys and values of few encoded pieces (B, S, D), (L, 2, B, heads, S, D / heads); None: it is not compiled."""
    packed, (B, S, D) = weights.packed_source, states.shape
    if packed is None or not is_short(B * S, D):
        return None
    from pipeline.kernels.encoder import project_source  # numba: half a second that training does not need
    out = np.empty((len(packed.bias) // D // 2, 2, B, style.heads, S, D // style.heads), packed.bias.dtype)
    project_source(states.contiguous().numpy(), packed, out)
    return torch.from_numpy(out)


def decode(x: Tensor, weights: Weights, style: Style, state: State, mask: Tensor | None) -> Tensor:
    """All decoder layers over the next n tokens of every row; their keys and values join the state.

    Args:
        x: (R, n, D) embeddings; may be overwritten.
        mask: broadcast to (R, heads, n, T), true where a token may see another; None: everywhere.

    Returns:
        (R * n, D), before the final normalisation.
    """
    R, n, D = x.shape
    if weights.packed is not None and are_few(R * n, weights.packed):
        return _compiled(x, weights.packed, style, state, mask)
    x = x.reshape(R * n, D)
    depth = D // style.heads
    B = state.source.shape[2]
    for index, (own, cross, feed_forward) in enumerate(weights.decoder):
        projected = _enter(x, own, style).view(R, n, 3, style.heads, depth).permute(2, 0, 3, 1, 4)
        keys, values = state.append(index, projected[1:]).unbind(0)
        x = _leave(x, attend(projected[0], keys, values, mask), own, style)
        # The beams of a sentence are neighbours and share its keys and values: they are queries of one batch entry.
        queries = _enter(x, cross, style).view(B, R // B * n if B else 0, style.heads, depth).transpose(1, 2)
        keys, values = state.source[index].unbind(0)
        x = _leave(x, attend(queries, keys, values, state.source_mask), cross, style)
        x = _feed_forward(x, feed_forward, style)
    return x


def _compiled(x: Tensor, packed: Packed, style: Style, state: State, mask: Tensor | None) -> Tensor:
    from pipeline.kernels.decoder import decode  # numba: half a second that training does not need
    R, n, D = x.shape
    x = x.contiguous()
    made, lengths = reading(packed, style, state, n, seen(mask))
    decode(x.numpy(), lengths, np.zeros_like(lengths), made)
    return x.view(R * n, D)


def step(tokens: Tensor, packed: Packed, style: Style, state: State, mask: Bools,
         projected: bool) -> tuple[Tensor, Tensor]:
    """Everything between few tokens and their logits in one call: around the arithmetic there is little left.

    Args:
        tokens: (R, n), the next of every row.
        packed: the decoder.
        mask: (1, T, T), true where a slot may see another.
        projected: whether logits are wanted.

    Returns:
        The decoder's last states, (R, n, D), and logits, (R, n, V) or none.

    Raises:
        IndexError: what stands among the tokens is no token, or there are more than places.
    """
    from pipeline.kernels.decoder import step  # numba: half a second that training does not need
    read = tokens.contiguous().numpy()
    (R, n), number = read.shape, packed.positions.dtype
    hidden = np.empty((R, n, packed.positions.shape[1]), number)
    logits = np.empty((R if projected else 0, n, len(packed.output_scale)), number)
    made, lengths = reading(packed, style, state, n, mask)
    if not step(read, lengths, made, hidden, logits):
        raise IndexError(f"token {read.min()} or {read.max()} is outside the vocabulary of {len(packed.embeddings)}, "
                         f"or {lengths.max() + n} tokens are more than the {len(packed.positions)} places")
    return torch.from_numpy(hidden), torch.from_numpy(logits)


def reading(packed: Packed, style: Style, state: State, tokens: int, mask: Bools) -> tuple[Reading, Ints]:
    """A decoder that reads up to so many tokens more, for which a state has room, and (R,) tokens that it has read."""
    past, source, lengths = state.arrays(tokens)
    return Reading(packed, past, source, mask, seen(state.source_mask), style.pre, style.relu), lengths


def seen(mask: Tensor | None) -> Bools:
    """A mask without its dimension of heads, (1 or R, 1 or n, T); no rows where everything is seen."""
    if mask is None:
        return _EVERYTHING
    return np.ascontiguousarray(mask.view(-1, *mask.shape[-2:]).numpy())


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
