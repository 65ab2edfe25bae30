"""A decoder state on a CPU of which rows are kept and reordered by index: no keys and values are copied.

Every row has memory of its own, into which its tokens are written; that of a sentence that is done is left unused.
Beams may have a part of their past in common: a table has for each token of a beam the row that wrote it, and compiled
attention looks there. Torch does not: before it reads, every row gets a copy of its past (`Indexed.separate`).
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.engine.reading import Floats, Ints

_State: Any = object
_NO_ORIGINS: Ints = np.empty((0, 0), np.int64)


class Index(NamedTuple):
    """Where rows are in memory: `own`, `origins` and `sources` of `reading.Reading`."""

    own: Ints
    origins: Ints
    sources: Ints


def indexed(state: Any) -> Any:
    """A state that has read nothing (`pipeline.model.state.State`), changed into one that keeps rows by index."""
    own: type = type(state)
    state.__class__ = _class_before(own)
    state.begin()
    return state


def index_of(state: Any) -> Index:
    """The index of any state; all rows of one that copies them are in their places."""
    if isinstance(state, Indexed):
        return state.index
    return Index(np.arange(state.rows), _NO_ORIGINS, np.arange(state.source.shape[2]))


@lru_cache
def _class_before(own: type) -> type:
    return type(own.__name__, (Indexed, own), {"__doc__": own.__doc__})


class _Rows:
    """A tensor (L, 2, P, heads, T, D / heads) of which R rows are kept, time and again (see `state.KeptRows`)."""

    def __init__(self, content: Tensor, branch: bool) -> None:
        """Args:
            branch: whether a row may be kept as several rows, which go on differently.
        """
        self.content, self.array, self.own = content, content.numpy(), np.arange(content.shape[2])
        self.origins = np.repeat(self.own[:, None], content.shape[4], axis=1) if branch else _NO_ORIGINS
        self.in_place = True
        """Whether R = P, and the place of every row has all of its content."""

    def keep(self, rows: Tensor, columns: int | None = None) -> None:
        """Keep rows, in this order, up to some column; what comes after it each will write into its own place."""
        chosen, self.in_place = rows.numpy(), False
        if len(self.origins):
            self.own, self.origins = self.own[:len(chosen)], self.origins[chosen]
        else:
            self.own = self.own[chosen]

    def copied(self, length: int) -> "_Rows":
        """All of them in their places, up to some column."""
        if self.in_place:
            return self
        L, two, _, *others = self.content.shape
        content = self.content.new_empty(L, two, len(self.own), *others)
        if len(self.origins):
            origins = torch.from_numpy(self.origins[:, :length])
            found = self.content.permute(2, 4, 0, 1, 3, 5)[origins, torch.arange(length)]
            content[..., :length, :] = found.permute(2, 3, 0, 4, 1, 5)
        else:
            content[..., :length, :] = self.content[..., :length, :].index_select(2, torch.from_numpy(self.own))
        return _Rows(content, len(self.origins) > 0)


class Indexed(_State):
    """The first base class of a state, before the state's own class (as `network.Compiled` is of a network)."""

    _past_rows: _Rows
    _source_rows: _Rows

    def begin(self) -> None:
        """All rows are in their places."""
        self._past_rows, self._source_rows = _Rows(self._past, self.beams > 1), _Rows(self.source, False)

    @property
    def index(self) -> Index:
        """Where the rows are in what `arrays` returns."""
        return Index(self._past_rows.own, self._past_rows.origins, self._source_rows.own)

    @property
    def rows(self) -> int:
        """R."""
        return len(self._past_rows.own)

    def separate(self) -> None:
        """Move all rows to their places; each then has a copy of its past."""
        self._past_rows = self._past_rows.copied(self.length)
        self._source_rows = self._source_rows.copied(self.source.shape[4])
        for row, length in enumerate([] if self.lengths is None else self.lengths):
            self._past_rows.array[:, :, row, :, length:self.length] = 0  # zero times what nobody wrote could be NaN

    # What a state does.

    def reserve(self, tokens: int) -> None:
        """See `pipeline.model.state.State.reserve`."""
        if self.length + tokens > self._past.shape[4]:
            self.separate()
            super().reserve(tokens)
            self.begin()

    def arrays(self, tokens: int) -> tuple[Floats, Floats, Ints]:
        """See `pipeline.model.state.State.arrays`; compiled attention reads only what a row has written."""
        lengths: Ints = np.full(self.rows, self.length) if self.lengths is None else self.lengths
        return self._past_rows.array, self._source_rows.array, lengths

    def select(self, rows: Tensor) -> None:
        """See `pipeline.model.state.State.select`."""
        super().select(rows)
        if self.lengths is not None and self.beams > 1:  # a short row writes where a longer one may have its past
            self.separate()

    def rewind(self, lengths: Ints | int) -> None:
        """See `pipeline.model.state.State.rewind`."""
        if not isinstance(lengths, int) and self.beams > 1:
            self.separate()
        super().rewind(lengths)
