"""What a decoder remembers between two calls, and how it moves: `select` rows, `rewind` lengths.

Search never touches the tensors in here. One sentence may own several neighbouring rows (its beams): the decoder's
own past is kept a row, the encoded source once a sentence.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


@dataclass
class Memory:
    """The encoded source."""

    states: Tensor
    """(B, S, D)."""
    mask: Tensor | None
    """(B, 1, 1, S), true where there is a piece; None where no row is padded."""


class State:
    """Keys and values of everything decoded so far, and of the source, for L layers.

    Attributes:
        length: tokens decoded by the longest row.
        lengths: (R,) tokens decoded by each row, or None while all rows have `length`.
        beams: rows a sentence.
        hidden: (R, n, D), the decoder's last states in the last step, of its n tokens and its R rows; not selected.
    """

    def __init__(self, source: Tensor, source_mask: Tensor | None, beams: int, capacity: int) -> None:
        """Args:
            source: (L, 2, B, heads, S, D / heads), keys and values of the source.
            source_mask: (B, 1, 1, S) or None.
            beams: rows a sentence.
            capacity: tokens to have room for at first; it grows when needed.
        """
        L, _, B, heads, _, depth = source.shape
        self.source = source
        self.source_mask = source_mask
        self.beams = beams
        self.length = 0
        self.lengths: Tensor | None = None
        self.hidden: Tensor | None = None
        self._past = source.new_empty(L, 2, B * beams, heads, capacity, depth)
        self._views: tuple[Tensor, Tensor, Floats, Floats] | None = None  # of what `arrays` has last looked at
        self._spare: Tensor | None = None  # `select` copies from one to the other and swaps them

    @property
    def rows(self) -> int:
        """R, sentences times beams."""
        return self._past.shape[2]

    def reserve(self, tokens: int) -> None:
        """Make room for `tokens` more behind the longest row (doubling, so that growth is rare)."""
        needed, capacity = self.length + tokens, self._past.shape[4]
        if needed > capacity:
            L, two, R, heads, _, depth = self._past.shape
            grown = self._past.new_empty(L, two, R, heads, max(needed, 2 * capacity), depth)
            grown[..., :self.length, :] = self._past[..., :self.length, :]
            self._past = grown

    def slots(self, tokens: int) -> Tensor:
        """Slots of the next `tokens` tokens: (tokens,) while the rows are level, (R, tokens) once they are ragged."""
        ahead = torch.arange(tokens, device=self._past.device)
        return ahead + self.length if self.lengths is None else ahead + self.lengths.unsqueeze(1)

    def append(self, layer: int, keys_values: Tensor) -> Tensor:
        """Store n new positions behind each row's past, in one layer; `advance` follows when all layers have done so.

        Args:
            layer: its index.
            keys_values: (2, R, heads, n, D / heads).

        Returns:
            All keys and values, (2, R, heads, T, D / heads), T the longest row; what a shorter row holds behind its
            own end is left over from a rejected draft and is for the mask to hide.
        """
        past, n = self._past[layer], keys_values.shape[3]
        end = self.length + n
        if self.lengths is None:
            past[:, :, :, self.length:end] = keys_values
        else:
            rows = torch.arange(len(self.lengths), device=past.device).unsqueeze(1)
            # Shorter rows do not write here; the mask hides it, but nothing times a stray NaN is still NaN.
            past[:, :, :, self.length:end] = 0
            past.transpose(2, 3)[:, rows, self.slots(n)] = keys_values.transpose(2, 3)
        return past[:, :, :, :end]

    def arrays(self, tokens: int) -> tuple[Floats, Floats, Ints]:
        """What compiled code reads, and writes the next `tokens` into, on a CPU; `advance` follows.

        Returns:
            Keys and values of the past, (L, 2, R, heads, capacity, D / heads), and of the source, and (R,) lengths.
        """
        if self.lengths is None:
            lengths = np.full(self.rows, self.length)
        else:
            lengths = self.lengths.numpy()
            self._past[..., self.length:self.length + tokens, :] = 0  # for the reason in `append`
        if self._views is None or self._views[0] is not self._past or self._views[1] is not self.source:
            self._views = (self._past, self.source, self._past.numpy(), self.source.numpy())
        return *self._views[2:], lengths

    def advance(self, tokens: int) -> None:
        """Count tokens that every layer has appended."""
        self.length += tokens
        if self.lengths is not None:
            self.lengths = self.lengths + tokens

    def select(self, rows: Tensor) -> None:
        """Keep and reorder rows: beam reorder, batch shrink, or both.

        Args:
            rows: (R',) indices of old rows, R' a multiple of `beams`; each group of `beams` stems from one sentence.
                With as many rows as before, every group stays in its place (a plain reorder of beams).
        """
        if len(rows) != self.rows:
            sentences = rows[::self.beams] // self.beams
            self.source = self.source.index_select(2, sentences)
            if self.source_mask is not None:
                self.source_mask = self.source_mask.index_select(0, sentences)
        if self._spare is None or self._spare.shape[2] != len(rows) or self._spare.shape[4] != self._past.shape[4]:
            L, two, _, heads, capacity, depth = self._past.shape
            self._spare = self._past.new_empty(L, two, len(rows), heads, capacity, depth)
        torch.index_select(self._past[..., :self.length, :], 2, rows, out=self._spare[..., :self.length, :])
        self._past, self._spare = self._spare, self._past
        if self.lengths is not None:
            self.lengths = self.lengths.index_select(0, rows)
            self.length = int(self.lengths.max()) if len(rows) else 0

    def rewind(self, lengths: Tensor | int) -> None:
        """Forget what lies behind a length, which may differ by row: a rejected draft.

        Args:
            lengths: (R,) or one number, at most the present lengths.
        """
        if isinstance(lengths, int):
            self.length, self.lengths = lengths, None
        else:
            self.length, self.lengths = int(lengths.max()), lengths
