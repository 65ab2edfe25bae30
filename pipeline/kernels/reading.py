"""What compiled code reads of a decoder: plain arrays. No numba, which training does not need, and no torch."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
COLUMNS = 32
"""Of a panel."""
Panels = Floats | npt.NDArray[np.int8]
"""A matrix (K, N) in panels (K, 32) behind each other, the last one filled up with columns of 0, as one flat array.

Rounded to 8 bits, with a float for every column, a quarter as much is to be read.
"""


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


class PackedLinks(NamedTuple):
    """A chain between the tokens of a draft (`model.token_chain`), laid out for reading by rows."""

    of_state: Panels
    """(D, F) …"""
    bias: Floats
    """… and (F,): what states contribute; F = 0: the tokens are independent."""
    table: Floats
    """(V, F), what every token contributes to the state behind it."""
    outer: Panels
    """(F, D)."""
    outputs: Panels
    """(D, V), the projection onto the vocabulary …"""
    scale: Floats
    """… and what its columns are multiplied by, (V,)."""


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
