"""Weights laid out for compiled code, once per model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.engine.reading import (
    COLUMNS,
    OFFSET,
    TOGETHER,
    Bytes,
    Floats,
    Packed,
    PackedChain,
    PackedEncoder,
    PackedHeads,
    PackedScorer,
    PackedSource,
    Panels,
    Screen,
)

_WIDEST = 1024
"""The width up to which a compiled step is faster than torch's (`python -m benchmarks.rows`)."""
_AT_ONCE = 4096
"""Columns of a projection whose errors are computed together."""

Block = Sequence[Floats]
"""Weight and bias of a normalisation, and of two linear maps; their matrices are (in, out)."""


def pack_decoder(layers: Sequence[Sequence[Block]], embeddings: Floats, positions: Floats, norm: Floats,
                 projection: Floats, *, rounded: bool) -> Packed | None:
    """A decoder as compiled code reads it; None where compiled steps do not support its shape.

    Args:
        layers: of each layer self-attention, attention to the source and feed-forward.
        embeddings: (V, D), scaled.
        positions: (T, D), one row per slot.
        norm: (2, D), the final normalisation; not read if the layers are post-norm.
        projection: (D, V).
        rounded: whether matrices are rounded; see `pack_matrix`.
    """
    if not _suits(layers, rounded):
        return None
    matrices, vectors = _pack_layers(layers, rounded)
    outputs, output_scale = pack_matrix(projection, rounded)
    return Packed(
        matrices=matrices, vectors=vectors,
        embeddings=np.ascontiguousarray(embeddings), positions=np.array(positions, order="C"),
        norm=np.ascontiguousarray(norm), outputs=outputs, output_scale=output_scale,
        output_bias=np.zeros_like(output_scale), screen=_screen(projection[:, :0] if rounded else projection))


def pack_encoder(layers: Sequence[Sequence[Block]], embeddings: Floats, positions: Floats, norm: Floats, *,
                 rounded: bool) -> PackedEncoder | None:
    """An encoder as compiled code reads it; None where compiled code does not support its shape.

    Args:
        layers: of each layer self-attention and feed-forward.
        embeddings, norm, rounded: see `pack_decoder`.
        positions: (S, D).
    """
    if not _suits(layers, rounded):
        return None
    return PackedEncoder(*_pack_layers(layers, rounded), np.ascontiguousarray(embeddings),
                         np.array(positions, order="C"), np.ascontiguousarray(norm))


def pack_source(weight: Floats, bias: Floats, *, rounded: bool) -> PackedSource | None:
    """A projection (D, L * 2 * D) as compiled code reads it; None where compiled code does not support its shape."""
    if not _fits(len(weight), rounded):
        return None
    return PackedSource(*pack_matrix(weight, rounded), bias.copy())


def _suits(layers: Sequence[Sequence[Block]], rounded: bool) -> bool:
    width, inner = layers[0][-1][2].shape
    return _fits(width, rounded) and not inner % TOGETHER


def _fits(width: int, rounded: bool) -> bool:
    return (rounded or width <= _WIDEST) and not width % TOGETHER


def _pack_layers(layers: Sequence[Sequence[Block]], rounded: bool) -> tuple[Panels, Floats]:
    """All matrices and all vectors, one row per layer, as `block` reads them."""
    matrices: list[Any] = []
    vectors: list[Floats] = []
    for layer in layers:
        for norm_weight, norm_bias, weight_in, bias_in, weight_out, bias_out in layer:
            (first, scale_in), (last, scale_out) = pack_matrix(weight_in, rounded), pack_matrix(weight_out, rounded)
            matrices += [first, last]
            vectors += [norm_weight, norm_bias, scale_in, bias_in, scale_out, bias_out]
    L = len(layers)
    together = aligned(sum(map(len, matrices)), matrices[0].dtype)
    return np.concatenate(matrices, out=together).reshape(L, -1), np.concatenate(vectors).reshape(L, -1)


def pack_chain(of_state: Floats, bias: Floats, table: Floats, outer: Floats, projection: Floats, *, rounded: bool,
               rounded_projection: bool) -> PackedChain | None:
    """A chain as compiled code reads it, or None where it does not support its shape; see `PackedChain` for the shapes.

    `pack_matrix` rounds the chain's own matrices, the projection, or both.
    """
    if of_state.shape[0] % TOGETHER or of_state.shape[1] % TOGETHER:
        return None
    return PackedChain(*pack_matrix(of_state, rounded), bias.copy(), table, *pack_matrix(outer, rounded),
                       *pack_matrix(projection, rounded_projection))


def pack_heads(inner: Floats, inner_bias: Floats, outer: Floats, outer_bias: Floats) -> PackedHeads:
    """Heads as compiled code reads them, their matrices (H, D, F) and (H, F, D) rounded."""
    return PackedHeads(*_stack(inner), inner_bias.copy(), *_stack(outer), outer_bias.copy())


def pack_scorer(decoder: Packed, cross: Sequence[Block], self_attention: Sequence[tuple[Floats, Floats]],
                heads: int, projection: Floats, normaliser: tuple[Floats, float], *,
                rounded: bool) -> PackedScorer | None:
    """A lattice's scorer as compiled code reads it; None where compiled code does not support its shape.

    Args:
        decoder: its layers, packed.
        cross: of each layer attention to the source.
        self_attention: of each layer weight (D, D) and bias (D,) of self-attention with one key.
        heads: of attention.
        projection: (V, D).
        normaliser: weight (D,) and bias of the linear map that predicts the logsumexp over the vocabulary.
        rounded: whether self-attention is rounded, as the decoder's feed-forward blocks then are.
    """
    D, (weight, bias) = projection.shape[1], normaliser
    if D // heads % TOGETHER:
        return None
    queries, outputs = ([np.ascontiguousarray(one).reshape(heads, D // heads, D) for one in maps]
                        for maps in ([block[2].T for block in cross], [block[4] for block in cross]))
    matrices, scales = zip(*(pack_matrix(one, rounded) for one, _ in self_attention), strict=True)
    return PackedScorer(
        decoder, np.stack(matrices), np.stack(scales), np.stack([one for _, one in self_attention]),
        _by_layer_and_head(queries), np.stack([block[3].reshape(heads, D // heads) for block in cross]),
        _by_layer_and_head(outputs), np.ascontiguousarray(projection - weight), -bias)  # a checkpoint's is by columns


def pack_matrix(weight: Floats, rounded: bool) -> tuple[Panels, Floats]:
    """A matrix (K, N) as `matrix.affine` reads it, and the factor of each column, (N,).

    Rounded, it has integers of 8 bits: reading weights is most of the work for a few rows.
    """
    if rounded:
        return _pack_rounded(weight)
    return _in_panels(weight, 1), np.ones(weight.shape[1], weight.dtype)


def _pack_rounded(weight: Floats) -> tuple[Bytes, Floats]:
    scale: Floats = (np.maximum(np.abs(weight).max(0, initial=0), 1e-9) / 127).astype(weight.dtype)
    return _in_panels((_rounded(weight, scale) + OFFSET).astype(np.uint8), TOGETHER), scale


def _in_panels(weight: Panels, together: int) -> Any:
    """A matrix (K, N) in panels, with `together` neighbouring numbers of a column side by side."""
    (K, N), panels = weight.shape, -(-weight.shape[1] // COLUMNS)
    packed = aligned(panels * K * COLUMNS, weight.dtype)
    filled = np.pad(weight, ((0, 0), (0, panels * COLUMNS - N))).reshape(K // together, together, panels, COLUMNS)
    packed[:] = filled.transpose(2, 0, 3, 1).ravel()
    return packed


def _screen(projection: Floats) -> Screen:
    """The screen of a projection (D, V), whose error bound includes the rounding errors of floating-point sums."""
    panels, scale = _pack_rounded(projection)
    lengths, lacking = np.empty(len(scale)), np.empty(len(scale))
    for begin in range(0, len(scale), _AT_ONCE):  # all at once, they would take six times the projection's memory
        some = slice(begin, begin + _AT_ONCE)
        exactly = projection[:, some].astype(np.float64)
        errors = exactly - _rounded(projection[:, some], scale[some]) * scale[some]
        lengths[some], lacking[some] = (np.sqrt((one * one).sum(0)) for one in (exactly, errors))
    lost = lacking + 2 * len(projection) * np.finfo(scale.dtype).eps * lengths
    first = np.arange(0, len(scale), COLUMNS)  # of every panel
    highest = (np.maximum.reduceat(one, first) if len(first) else one for one in (lengths + lacking, lost))
    return Screen(panels, scale, *((1.001 * one).astype(scale.dtype) for one in highest))


def aligned(numbers: int, kind: np.dtype[Any]) -> Any:
    """An array that begins at a cache line."""
    room = np.empty(numbers * kind.itemsize + 64, np.uint8)
    return room[-room.ctypes.data % 64:][:numbers * kind.itemsize].view(kind)


def _rounded(weight: Floats, scale: Floats) -> Floats:
    """A matrix in integer multiples of a scale per column."""
    rounded: Floats = (weight / scale).round()
    return rounded


def _by_layer_and_head(matrices: Sequence[Floats]) -> Any:
    """Matrices in panels, (layers, heads, …)."""
    return np.stack([np.stack([pack_matrix(one, False)[0] for one in layer]) for layer in matrices])


def _stack(matrices: Floats) -> tuple[Any, Any]:
    packed, scales = zip(*(pack_matrix(matrix, True) for matrix in matrices), strict=True)
    stacked = aligned(sum(map(len, packed)), packed[0].dtype).reshape(len(packed), -1)
    return np.stack(packed, out=stacked), np.stack(scales)
