"""What compiled code reads: plain arrays. This imports neither torch nor numba, which training does not need."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Multiplicands = Floats | npt.NDArray[np.int8]
"""What is multiplied by a matrix: floats, or bytes where the matrix is rounded."""
COLUMNS = 32
"""Columns of a panel."""
TOGETHER = 4
"""Neighbouring numbers of a column whose products are summed at a time: K is a multiple of it."""
Bytes = npt.NDArray[np.uint8]
OFFSET = 128
"""Added to integers from -127 to 127, so that they are unsigned."""
ALONE: Ints = np.zeros(0, np.int64)
"""The team of a thread that computes alone (`team`)."""
Panels = Floats | Bytes
"""A matrix (K, N) as a flat array of consecutive panels (K, 32), the last one padded with columns of 0.

Rounded to 8 bits, with a factor per column and `OFFSET` added, the panels are (K / 4, 32, 4).
"""


class Screen(NamedTuple):
    """The rounded projection onto the vocabulary and bounds of its error (`screen`)."""

    panels: Bytes
    """(D, V); V = 0 for a decoder that is rounded itself, and needs no screen."""
    scale: Floats
    """(V,), the factors of its columns."""
    lengths: Floats
    """(panels,), the length of the longest column of each panel."""
    lost: Floats
    """(panels,), the length of the largest rounding error of a column of each panel."""


class Packed(NamedTuple):
    """The parameters of a decoder: copies, which later changes of the weights do not affect.

    Matrices are (in, out), in `Panels`; a `scale` has the factors of a matrix's columns.
    """

    matrices: Panels
    """(L, M), all matrices of a layer, one after the other."""
    vectors: Floats
    """(L, Q): of every block weight and bias of its norm, and scale and bias of its two matrices."""
    embeddings: Floats
    """(V, D), scaled."""
    positions: Floats
    """(T, D), one row per slot."""
    norm: Floats
    """(2, D), weight and bias of the final normalisation; not read if the layers are post-norm."""
    outputs: Panels
    """(D, V), the projection onto the vocabulary."""
    output_scale: Floats
    """(V,)."""
    output_bias: Floats
    """(V,)."""
    screen: Screen
    """Of the projection."""


class Reading(NamedTuple):
    """A decoder that reads targets: its parameters, and the keys and values of what R rows have read.

    Its user counts these tokens.
    """

    packed: Packed
    past: Floats
    """(L, 2, P, heads, capacity, D / heads), keys and values, P at least R; further reading writes into it."""
    own: Ints
    """(R,), the row of `past` that is a row's own: into which its tokens are written."""
    origins: Ints
    """(R, capacity), which row of `past` has each token of a row (`indexed`); no rows: its own."""
    source: Floats
    """(L, 2, Q, heads, S, D / heads), keys and values of sources."""
    sources: Ints
    """(B,), the row of `source` of each sentence, B a divisor of R: neighbouring rows share a sentence."""
    mask: Bools
    """(R or 1, N or 1, T), true where a token may see another; no rows: true everywhere."""
    source_mask: Bools
    """(B, 1, S), true where there is a piece; no rows: true everywhere."""
    pre: bool
    """Whether normalisation comes before each block."""
    activation: int
    """Of the feed-forward blocks; see `plain`."""
    team: Ints
    """The threads that share its products (`team`)."""


class Seen(NamedTuple):
    """What the queries of R rows attend to."""

    keys: Floats
    """(P, heads, T, D / heads)."""
    values: Floats
    """The same shape."""
    own: Ints
    """(R,), the row among the P that is a row's own."""
    origins: Ints
    """(R, T), which of the P has each token of a row; no rows: its own."""
    counts: Ints
    """(R,), how many of the T a row has."""
    mask: Bools
    """(1 or R, 1 or N, T), which of them the queries may see, each at least one; no rows: all."""
    places: Ints
    """(R,), the index of a row's first query in the mask's N; the next one has the next."""


class PackedEncoder(NamedTuple):
    """The parameters of an encoder: copies; see `Packed`, except for the shape of `positions`, (S, D)."""

    matrices: Panels
    vectors: Floats
    embeddings: Floats
    positions: Floats
    norm: Floats


class PackedSource(NamedTuple):
    """The projection of encoded sources onto keys and values of all decoder layers."""

    matrix: Panels
    """(D, L * 2 * D)."""
    scale: Floats
    """(L * 2 * D,)."""
    bias: Floats
    """(L * 2 * D,)."""


class PackedChain(NamedTuple):
    """A chain between the tokens of a draft (`model.token_chain`), laid out for reading by rows."""

    of_state: Panels
    """(D, F), the contribution of a state to the hidden layer; F = 0: the tokens are independent."""
    of_state_scale: Floats
    """(F,)."""
    bias: Floats
    """(F,)."""
    table: Floats
    """(V, F), the contribution of the token before."""
    outer: Panels
    """(F, D), the out-projection."""
    outer_scale: Floats
    """(D,)."""
    outputs: Panels
    """(D, V), the projection onto the vocabulary."""
    output_scale: Floats
    """(V,)."""


class PackedHeads(NamedTuple):
    """Heads that predict the words after the next one (`model.heads`)."""

    inner: Panels
    """(H, …), each (D, F)."""
    inner_scale: Floats
    """(H, F)."""
    inner_bias: Floats
    """(H, F)."""
    outer: Panels
    """(H, …), each (F, D)."""
    outer_scale: Floats
    """(H, D)."""
    outer_bias: Floats
    """(H, D)."""


class PackedScorer(NamedTuple):
    """The parameters of a scorer of L layers: copies, which later changes of the weights do not affect."""

    decoder: Packed
    """Its embeddings, positions, norms and feed-forward blocks."""
    self_attention: Panels
    """(L, …), each (D, D): self-attention of a row that sees only itself."""
    self_scale: Floats
    """(L, D)."""
    self_bias: Floats
    """(L, D)."""
    queries: Panels
    """(L, heads, …), each (D / heads, D): the rows of the queries' projection for one head."""
    query_bias: Floats
    """(L, heads, D / heads)."""
    outputs: Panels
    """(L, heads, …), each (D / heads, D): the rows of the out-projection for one head."""
    projection: Floats
    """(V, D), whose rows predict the words' logits minus the logsumexp."""
    bias: float
    """Added to every logit."""
