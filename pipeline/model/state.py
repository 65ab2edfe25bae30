"""The decoder state: what a decoder keeps between two calls. Search may `select` rows and `rewind` lengths.

A sentence may have several neighbouring rows (its beams). Keys and values of the past are kept per row, those of the
encoded source per sentence.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engine.waiting import on_device

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


@dataclass
class Memory:
    """The encoded source."""

    states: Tensor
    """(B, S, D)."""
    mask: Tensor | None
    """(B, 1, 1, S), true where there is a piece; None: no row is padded."""


class State:
    """Keys and values of everything decoded so far, and of the source, for L layers.

    Attributes:
        length: tokens decoded by the longest row.
        lengths: (R,) tokens decoded by each row, on the host, which so need not wait for a GPU; None: all rows have
            `length`.
        beams: rows per sentence.
        hidden: (R, n, D), the last hidden states of the last step; `select` does not change it.
    """

    def __init__(self, source: Tensor, source_mask: Tensor | None, beams: int, capacity: int) -> None:
        """Args:
            source: (L, 2, B, heads, S, D / heads), keys and values of the source.
            source_mask: (B, 1, 1, S) or None.
            beams: rows per sentence.
            capacity: tokens to allocate memory for; it grows when needed.
        """
        L, _, B, heads, _, depth = source.shape
        self.source = source
        self.source_mask = source_mask
        self.beams = beams
        self.length = 0
        self.lengths: Ints | None = None
        self.hidden: Tensor | None = None
        self._past = source.new_empty(L, 2, B * beams, heads, capacity, depth)
        self._views: tuple[Tensor, Tensor, Floats, Floats] | None = None  # what `arrays` returned, and its tensors
        self._spare: Tensor | None = None  # `select` copies from one to the other and swaps them

    @property
    def rows(self) -> int:
        """R, sentences times beams."""
        return self._past.shape[2]

    def reserve(self, tokens: int) -> None:
        """Allocate memory for `tokens` more after the longest row (doubling, so that growth is rare)."""
        needed, capacity = self.length + tokens, self._past.shape[4]
        if needed > capacity:
            grown = self._new_past(self.rows, max(needed, 2 * capacity))
            grown[..., :self.length, :] = self._past[..., :self.length, :]
            self._past = grown

    def _new_past(self, rows: int, capacity: int) -> Tensor:
        L, two, _, heads, _, depth = self._past.shape
        return self._past.new_empty(L, two, rows, heads, capacity, depth)

    def slots(self, tokens: int) -> Tensor:
        """Slots of the next `tokens` tokens: (tokens,) while all rows have one length, otherwise (R, tokens)."""
        ahead = torch.arange(tokens, device=self._past.device)
        if self.lengths is None:
            return ahead + self.length
        return ahead + on_device(self.lengths, ahead.device).unsqueeze(1)

    def append(self, layer: int, keys_values: Tensor) -> Tensor:
        """Store a layer's keys and values (2, R, heads, n, D / heads) of n tokens after each row's past.

        When all layers have stored theirs, `advance` counts the tokens.

        Returns:
            All keys and values, (2, R, heads, T, D / heads), T the longest row; the mask must hide what is after the
            end of a shorter row.
        """
        past, n = self._past[layer], keys_values.shape[3]
        end = self.length + n
        if self.lengths is None:
            past[:, :, :, self.length:end] = keys_values
        else:
            rows = torch.arange(len(self.lengths), device=past.device).unsqueeze(1)
            # Shorter rows do not write here; the mask hides it, but zero times NaN would be NaN.
            past[:, :, :, self.length:end] = 0
            past.transpose(2, 3)[:, rows, self.slots(n)] = keys_values.transpose(2, 3)
        return past[:, :, :, :end]

    def arrays(self, tokens: int) -> tuple[Floats, Floats, Ints]:
        """The state on a CPU as compiled code reads it and writes `tokens` more; `advance` then counts them.

        Returns:
            Keys and values of the past, (L, 2, R, heads, capacity, D / heads), and of the source, and (R,) lengths.
        """
        if self.lengths is None:
            lengths = np.full(self.rows, self.length)
        else:
            lengths = self.lengths
            self._past[..., self.length:self.length + tokens, :] = 0  # see `append`
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
            rows: (R',) indices of old rows, R' a multiple of `beams`; each group of `beams` is from one sentence. With
                as many rows as before, every sentence keeps its place. They are on the CPU if rows differ in length.
        """
        if self.lengths is not None:
            self.rewind(self.lengths[rows.numpy()])
        rows = rows.to(self._past.device, non_blocking=True)
        if len(rows) != self.rows:
            sentences = rows[::self.beams] // self.beams
            self.source = self.source.index_select(2, sentences)
            if self.source_mask is not None:
                self.source_mask = self.source_mask.index_select(0, sentences)
        if self._spare is None or self._spare.shape[2] != len(rows) or self._spare.shape[4] != self._past.shape[4]:
            self._spare = self._new_past(len(rows), self._past.shape[4])
        torch.index_select(self._past[..., :self.length, :], 2, rows, out=self._spare[..., :self.length, :])
        self._past, self._spare = self._spare, self._past

    def rewind(self, lengths: Ints | int) -> None:
        """Forget what is after the given lengths, (R,) or one number, which are at most the present ones."""
        if isinstance(lengths, int):
            self.length, self.lengths = lengths, None
        else:
            self.length, self.lengths = int(lengths.max(initial=0)), lengths
