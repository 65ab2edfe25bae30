"""The decoder state: what a decoder keeps between two calls. Search may `select` rows and `rewind` lengths.

A sentence may have several neighbouring rows (its beams). Keys and values of the past are kept per row, those of the
encoded source per sentence.
"""

import math
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


class KeptRows:
    """A tensor (L, 2, R, …) of which some rows are kept, time and again: two blocks of memory take turns.

    New memory for every copy costs more than copying, because the system hands it out page by page.
    """

    def __init__(self, content: Tensor) -> None:
        """Args:
            content: contiguous; overwritten after the second `keep`.
        """
        self.content = content
        self._block, self._spare = content.view(-1), content.new_empty(0)

    def keep(self, rows: Tensor, columns: int | None = None) -> None:
        """Keep rows, in this order.

        Args:
            rows: (R',) indices.
            columns: the places of the last dimension but one that have a content; None: all.
        """
        L, two, _, *others = self.content.shape
        shape = L, two, len(rows), *others
        size = math.prod(shape)
        if len(self._spare) < size:
            self._spare = self.content.new_empty(size)
        kept = self._spare[:size].view(shape)
        torch.index_select(self.content[..., :columns, :], 2, rows, out=kept[..., :columns, :])
        self._block, self._spare, self.content = self._spare, self._block, kept


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
        self.source_mask = source_mask
        self.beams = beams
        self.length = 0
        self.lengths: Ints | None = None
        self.hidden: Tensor | None = None
        self._source_rows = KeptRows(source)
        self._past_rows = KeptRows(source.new_empty(L, 2, B * beams, heads, capacity, depth))
        self._views: tuple[Tensor, Tensor, Floats, Floats] | None = None  # what `arrays` returned, and its tensors

    @property
    def rows(self) -> int:
        """R, sentences times beams."""
        return self._past.shape[2]

    @property
    def source(self) -> Tensor:
        """(L, 2, B, heads, S, D / heads), keys and values of the source; valid until rows are selected."""
        return self._source_rows.content

    @property
    def _past(self) -> Tensor:
        """(L, 2, R, heads, capacity, D / heads), keys and values of the past."""
        return self._past_rows.content

    def reserve(self, tokens: int) -> None:
        """Allocate memory for `tokens` more after the longest row (doubling, so that growth is rare)."""
        needed, capacity = self.length + tokens, self._past.shape[4]
        if needed > capacity:
            *others, _, depth = self._past.shape
            grown = self._past.new_empty(*others, max(needed, 2 * capacity), depth)
            grown[..., :self.length, :] = self._past[..., :self.length, :]
            self._past_rows = KeptRows(grown)

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
            self._source_rows.keep(sentences)
            if self.source_mask is not None:
                self.source_mask = self.source_mask.index_select(0, sentences)
        self._past_rows.keep(rows, self.length)

    def rewind(self, lengths: Ints | int) -> None:
        """Forget what is after the given lengths, (R,) or one number, which are at most the present ones."""
        if isinstance(lengths, int):
            self.length, self.lengths = lengths, None
        else:
            self.length, self.lengths = int(lengths.max(initial=0)), lengths
