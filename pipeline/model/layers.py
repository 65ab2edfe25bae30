"""The blocks of the Transformer (Vaswani et al. 2017), for entire sequences and for the next tokens of a search."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.engine.plain import Block
from pipeline.model.settings import NetworkSettings

Past = Callable[[Tensor], Tensor]
"""Of one layer: stores the keys and values (2, R, heads, n, d) of the next n tokens, and returns those of all tokens so
far, (2, R, heads, T, d)."""
_ACTIVATIONS = {"relu": torch.relu_, "gelu": F.gelu, "swish": F.silu}
_MANY_ROWS, _FEW_QUERIES = 16, 8


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropped: float = 0.0) -> Tensor:
    """Scaled dot-product attention.

    In cached decoding, many rows have one or two queries each and few keys. There two batched products take half the
    time of torch's CPU kernel, which processes the rows one by one. In bfloat16, the gradient of that kernel takes ten
    times as long as theirs.

    Args:
        queries: (B, heads, n, d).
        keys, values: (B, heads, T, d).
        mask: booleans broadcast to (B, heads, n, T), true where a query sees a key; None: everywhere.
        dropped: probability with which an attention weight is dropped.

    Returns:
        (B, heads, n, d).
    """
    B, _, n, d = queries.shape
    cached = B >= _MANY_ROWS and n <= _FEW_QUERIES and not dropped
    batched = queries.dtype == torch.bfloat16 if torch.is_grad_enabled() else cached
    if queries.device.type != "cpu" or not batched:
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropped)
    scores = torch.matmul(queries * d**-0.5, keys.transpose(2, 3))
    if mask is not None:
        scores.masked_fill_(~mask, -torch.inf)
    return torch.matmul(F.dropout(scores.softmax(3), dropped), values)


# cuDNN makes a plan for every new shape, which takes longer than a training step; here every batch has another shape.
torch.backends.cuda.enable_cudnn_sdp(False)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.dropout = settings.attention_dropout
        self.queries_keys_values = nn.Linear(settings.width, 3 * settings.width)
        self.output = nn.Linear(settings.width, settings.width)

    def forward(self, x: Tensor, mask: Tensor | None, past: Past | None = None) -> Tensor:
        """Attention of n tokens x (B, n, D) to all T tokens so far: (B, n, D).

        The mask is that of `attend`. Without a past, the tokens are an entire sequence, T = n.
        """
        B, n, D = x.shape
        projected = self.queries_keys_values(x).view(B, n, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        queries, keys, values = projected.unbind(0)  # each (B, heads, n, D / heads)
        if past is not None:
            keys, values = past(projected[1:]).unbind(0)
        attended = attend(queries, keys, values, mask, self.dropout if self.training else 0.0)
        return self.output(attended.transpose(1, 2).reshape(B, n, D))

    def single_key(self) -> tuple[Tensor, Tensor]:
        """Weight (D, D) and bias (D,) of the linear map that this layer is for tokens which see only themselves.

        A softmax over one key is 1, so the map is that of the values followed by that of the output. The result does
        not follow later changes of the parameters.
        """
        inner = self.queries_keys_values
        values = 2 * inner.in_features
        return (self.output.weight @ inner.weight[values:],
                torch.addmv(self.output.bias, self.output.weight, inner.bias[values:]))


class CrossAttention(nn.Module):
    """Attention of target positions to the encoded source, whose keys and values are projected beforehand."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.dropout = settings.attention_dropout
        self.queries = nn.Linear(settings.width, settings.width)
        self.output = nn.Linear(settings.width, settings.width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of target tokens to the source: (R, n, D).

        Args:
            x: (R, n, D), R a multiple of B: the beams of a sentence are neighbours.
            keys, values: (B, heads, S, D / heads).
            mask: (B, 1, 1, S), true where there is a source piece; None: everywhere.
        """
        (R, n, D), B = x.shape, len(keys)
        # The beams of a sentence share its keys and values: they are queries of one batch entry.
        queries = self.queries(x).view(B, R // B * n if B else 0, self.heads, D // self.heads).transpose(1, 2)
        attended = attend(queries, keys, values, mask, self.dropout if self.training else 0.0)
        return self.output(attended.transpose(1, 2).reshape(R, n, D))


class FeedForward(nn.Module):
    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.inner = nn.Linear(settings.width, settings.feed_forward)
        self.outer = nn.Linear(settings.feed_forward, settings.width)
        self.activation = _ACTIVATIONS[settings.activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """The residual sum around a block, with its normalisation before (pre) or after (post) it."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(settings.width)
        self.pre = settings.norm == "pre"
        self.dropout = settings.dropout

    def add(self, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """x plus the block's output, normalised."""
        output = block(self._normalised(x) if self.pre else x)
        if self.training:
            output = dropout(output, self.dropout)
        return x + output if self.pre else self._normalised(x + output)

    def _normalised(self, x: Tensor) -> Tensor:
        norm = self.norm
        return torch.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def weights(self, first: nn.Linear, last: nn.Linear) -> Block:
        """The parameters of the block between these linear maps, not copied: later changes of them show."""
        return (self.norm.weight.detach(), self.norm.bias.detach(), first.weight.detach().t(), first.bias.detach(),
                last.weight.detach().t(), last.bias.detach())


class EncoderLayer(nn.Module):
    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.around_self_attention = Residual(settings)
        self.around_feed_forward = Residual(settings)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.around_self_attention.add(x, lambda y: self.self_attention(y, mask))
        return self.around_feed_forward.add(x, self.feed_forward)

    def weights(self) -> tuple[Block, Block]:
        """The parameters of self-attention and feed-forward."""
        own, feed_forward = self.self_attention, self.feed_forward
        return (self.around_self_attention.weights(own.queries_keys_values, own.output),
                self.around_feed_forward.weights(feed_forward.inner, feed_forward.outer))


class DecoderLayer(nn.Module):
    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings)
        self.cross_attention = CrossAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.around_self_attention = Residual(settings)
        self.around_cross_attention = Residual(settings)
        self.around_feed_forward = Residual(settings)

    def forward(self, x: Tensor, mask: Tensor | None, keys: Tensor, values: Tensor,
                source_mask: Tensor | None, past: Past | None = None) -> Tensor:
        """The layer applied to tokens x (R, n, D); see `SelfAttention` and `CrossAttention` for the other arguments."""
        x = self.around_self_attention.add(x, lambda y: self.self_attention(y, mask, past))
        return self.after_self_attention(x, keys, values, source_mask)

    def after_self_attention(self, x: Tensor, keys: Tensor, values: Tensor, source_mask: Tensor | None) -> Tensor:
        """The rest of the layer: attention to the source and feed-forward."""
        x = self.around_cross_attention.add(x, lambda y: self.cross_attention(y, keys, values, source_mask))
        return self.around_feed_forward.add(x, self.feed_forward)

    def weights(self) -> tuple[Block, Block, Block]:
        """The parameters of self-attention, attention to the source and feed-forward."""
        own, cross, feed_forward = self.self_attention, self.cross_attention, self.feed_forward
        return (self.around_self_attention.weights(own.queries_keys_values, own.output),
                self.around_cross_attention.weights(cross.queries, cross.output),
                self.around_feed_forward.weights(feed_forward.inner, feed_forward.outer))


def dropout(x: Tensor, probability: float) -> Tensor:
    """Set entries to zero with a probability and scale up the others, in training.

    On a CPU `F.dropout` draws one number per entry, which took a fifth of a training step. Here 64 random bits serve
    four entries, so the probability is rounded to a multiple of 2**-16 below 1.

    >>> dropped = dropout(torch.ones(10_000), 0.1)
    >>> abs(dropped.mean().item() - 1) < 0.02 and len(dropped.unique()) == 2
    True
    """
    if not probability:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-2**63, None)
    threshold = min(round(probability * 2**16), 2**16 - 1)
    kept = words.view(torch.int16)[:x.numel()].view(x.shape) >= threshold - 2**15
    return x * kept.to(x.dtype).mul_(2**16 / (2**16 - threshold))


class Positions(nn.Module):
    """Vectors of word positions, sinusoidal (fixed) or learned. Some orders have negative positions.

    The sinusoid of a negative position is the odd (sine) and even (cosine) continuation, so the inner product of two
    positions depends on their distance alone ("signed" positions, Zhang et al. 2020, equation 7). A learned table
    starts from the sinusoids, which keeps what a warm start has learned about positions.
    """

    fixed: Tensor

    def __init__(self, settings: NetworkSettings, positions: Tensor, directions: int = 0) -> None:
        """Args:
            positions: (T,) the word position of every slot.
            directions: number of directions, which alternate over the slots and have a trainable vector each
                (Zhang et al. 2020, equation 10); 0: no such vectors.
        """
        super().__init__()
        self.learned: nn.Parameter | None = None
        self.directions: nn.Parameter | None = None
        vectors = sinusoids(positions, settings.width)
        if settings.positions == "learned":
            self.learned = nn.Parameter(vectors)
        else:
            self.register_buffer("fixed", vectors, persistent=False)
        if directions:
            self.directions = nn.Parameter(torch.randn(directions, settings.width))

    @torch.no_grad()
    def begin(self, first: int, step: int) -> None:
        """Set a learned table to the sinusoids of the positions first, first + step, …"""
        assert self.learned is not None
        positions = first + step * torch.arange(len(self.learned))
        self.learned.copy_(sinusoids(positions, self.learned.shape[1]))

    @torch.no_grad()
    def repeat(self, copies: int) -> None:
        """Change a learned table of sinusoids to the sinusoids of D / copies columns, repeated."""
        assert self.learned is not None
        # Every `copies`-th frequency of D columns is one of D / copies columns.
        self.learned.copy_(self.learned[:, ::copies].repeat(1, copies))

    def forward(self) -> Tensor:
        """The vectors of all slots, (T, D)."""
        table = self.learned if self.learned is not None else self.fixed
        if self.directions is None:
            return table
        rounds = -(-len(table) // len(self.directions))
        return table + self.directions.repeat(rounds, 1)[:len(table)]


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """(T, D): sines in the first half of the columns, cosines in the second (Vaswani et al. 2017, section 3.5)."""
    frequencies = torch.exp(torch.arange(width // 2) * (-math.log(10000.0) / (width // 2)))
    angles = positions.unsqueeze(1) * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)
