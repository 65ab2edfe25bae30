"""What compiled code reads of a decoder: plain arrays. No numba, which training does not need, and no torch."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
COLUMNS = 32
"""Of a panel."""
TOGETHER = 4
"""Neighbouring numbers of a column whose products are summed up at a time: K is a multiple of it."""
Bytes = npt.NDArray[np.uint8]
OFFSET = 128
"""Added to whole numbers from -127 to 127, so that they are unsigned."""
Panels = Floats | Bytes
"""A matrix (K, N) in panels (K, 32) behind each other, the last one filled up with columns of 0, as one flat array.

Rounded to 8 bits, with a float for every column and `OFFSET` added, they are panels (K / 4, 32, 4).
"""


class Screen(NamedTuple):
    """The projection onto the vocabulary once more, rounded, and how wrong that is (`screen`)."""

    panels: Bytes
    """(D, V); of a decoder that is rounded itself, and needs no screen, V = 0."""
    scale: Floats
    """(V,), what its columns are multiplied by."""
    lengths: Floats
    """(panels,), of its columns, the longest of a panel …"""
    lost: Floats
    """… and of what they lack, likewise."""


class Packed(NamedTuple):
    """The parameters of a decoder: copies, in which later changes of the weights do not show.

    Matrices are (in, out), in `Panels`.
    """

    matrices: Panels
    """(L, M), all matrices of a layer one behind the other."""
    vectors: Floats
    """(L, Q): of every block weight and bias of its norm, and scale and bias of its two matrices."""
    embeddings: Floats
    """(V, D), scaled."""
    positions: Floats
    """(T, D), a row a slot."""
    norm: Floats
    """(2, D), weight and bias of the final normalisation; void behind post-norm layers."""
    outputs: Panels
    """(D, V), the projection …"""
    output_scale: Floats
    """… what its columns are multiplied by, (V,) …"""
    output_bias: Floats
    """… and (V,), nothing."""
    screen: Screen


class Reading(NamedTuple):
    """A decoder that reads targets: its parameters, and the keys and values of what R rows have read.

    How many tokens that are is for the reader to remember.
    """

    packed: Packed
    past: Floats
    """(L, 2, R, heads, capacity, D / heads), keys and values; written by whoever reads on."""
    source: Floats
    """(L, 2, B, heads, S, D / heads), B a divisor of R: neighbouring rows share a sentence."""
    mask: Bools
    """(R or 1, N or 1, T), true where a token may see another; no rows: everything before it."""
    source_mask: Bools
    """(B, 1, S), true where there is a piece; no rows: everywhere."""
    pre: bool
    """Whether normalisation comes before each block."""
    relu: bool
    """Whether the feed-forward blocks have ReLU; else GELU."""


class PackedEncoder(NamedTuple):
    """The parameters of an encoder: copies, as in `Packed`."""

    matrices: Panels
    """(L, M), all matrices of a layer one behind the other."""
    vectors: Floats
    """(L, Q): of every block weight and bias of its norm, and scale and bias of its two matrices."""
    embeddings: Floats
    """(V, D), scaled."""
    positions: Floats
    """(S, D)."""
    norm: Floats
    """(2, D), weight and bias of the final normalisation; void behind post-norm layers."""


class PackedSource(NamedTuple):
    """The projection of encoded sources onto keys and values of all decoder layers."""

    matrix: Panels
    """(D, L * 2 * D) …"""
    scale: Floats
    """… what its columns are multiplied by, (L * 2 * D,) …"""
    bias: Floats
    """… and (L * 2 * D,)."""


class PackedLinks(NamedTuple):
    """A chain between the tokens of a draft (`model.token_chain`), laid out for reading by rows."""

    of_state: Panels
    """(D, F) …"""
    of_state_scale: Floats
    """… what its columns are multiplied by, (F,) …"""
    bias: Floats
    """… and (F,): what states contribute; F = 0: the tokens are independent."""
    table: Floats
    """(V, F), what every token contributes to the state behind it."""
    outer: Panels
    """(F, D) …"""
    outer_scale: Floats
    """… and (D,)."""
    outputs: Panels
    """(D, V), the projection onto the vocabulary …"""
    output_scale: Floats
    """… and (V,)."""


class PackedHeads(NamedTuple):
    """Heads that guess the words behind the next one (`model.heads`)."""

    inner: Panels
    """(H, …), each (D, F) …"""
    inner_scale: Floats
    """… what its columns are multiplied by, (H, F) …"""
    inner_bias: Floats
    """… and (H, F)."""
    outer: Panels
    """(H, …), each (F, D) …"""
    outer_scale: Floats
    """… (H, D) …"""
    outer_bias: Floats
    """… and (H, D)."""


class PackedScorer(NamedTuple):
    """The parameters of a scorer of L layers: copies, in which later changes of the weights do not show."""

    decoder: Packed
    """Its embeddings, positions, norms and feed-forward blocks."""
    alone: Panels
    """(L, …), each (D, D): self-attention of a row that sees only itself."""
    alone_bias: Floats
    """(L, D)."""
    queries: Panels
    """(L, heads, …), each (D / heads, D): the rows of the queries' map onto one head."""
    query_bias: Floats
    """(L, heads, D / heads)."""
    outputs: Panels
    """(L, heads, …), each (D / heads, D): the map after attention, of what comes from one head."""
    projection: Floats
    """(V, D), of which a candidate's row makes its logit, less what normalises it."""
    bias: float
    """What is added to every logit."""
