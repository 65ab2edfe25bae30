"""The memory of static steps (`static.py`): keys, values and lengths with places for more than there are.

A recorded step reads and writes the memory with which it was recorded. So memory is not freed with the state that used
it, but kept in a pool for the next state of the same shape, with the steps that were recorded on it.
"""

from collections import OrderedDict
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.engine.recorded import GraphMemory

_FEWEST = 32
"""The fewest places for tokens and for pieces of the source."""
_KEPT = 2**31
"""The most bytes of spaces, with the graphs of their steps, that a network keeps for later searches."""


class Shape(NamedTuple):
    """The places of a `Space`."""

    sentences: int
    beams: int
    pieces: int
    tokens: int

    @classmethod
    def around(cls, sentences: int, beams: int, pieces: int, tokens: int, most: int) -> "Shape":
        """The shape for so many, in powers of two, so that few shapes occur; but at most `most` places for tokens.

        >>> Shape.around(3, 2, 40, 5, 256)
        Shape(sentences=4, beams=2, pieces=64, tokens=32)
        """
        return cls(_power(sentences), beams, _power(max(pieces, _FEWEST)), min(_power(max(tokens, _FEWEST)), most))


class Space:
    """The memory that the steps of one state read and write, and the steps themselves."""

    def __init__(self, shape: Shape, like: Tensor, records: bool) -> None:
        """Args:
            shape: the places.
            like: (L, 2, B, heads, S, D / heads), for the other sizes, the type and the device.
            records: whether steps are recorded on a GPU.
        """
        (L, two, _, heads, _, depth), (B, beams, S, T) = like.shape, shape
        with torch.inference_mode(False):  # tensors that are made in inference mode could not be changed outside
            self.past = like.new_zeros(L, two, B * beams, heads, T, depth)
            self.source = like.new_zeros(L, two, B, heads, S, depth)
            self.mask = like.new_zeros(B, 1, 1, S, dtype=torch.bool)
            self.lengths = like.new_zeros(B * beams, dtype=torch.long)
        self.shape, self.records = shape, records and like.is_cuda
        # Of its user: the last used is the last, and graphs share memory, as the results of a step are read before the
        # next one.
        self.steps: OrderedDict[tuple[int, bool, bool], Any] = OrderedDict()
        self.graphs = GraphMemory()

    @property
    def size(self) -> int:
        """Bytes, with those of graphs."""
        return self.graphs.size + sum(one.nbytes for one in (self.past, self.source, self.mask, self.lengths))

    def load(self, source: Tensor, mask: Tensor | None) -> None:
        """Begin with the keys and values (L, 2, B, heads, S, d) of sources, and their mask (B, 1, 1, S)."""
        B, S = source.shape[2], source.shape[4]
        self.past.zero_()  # a hidden place has weight 0, but 0 times NaN is NaN
        self.source.zero_()
        self.source[:, :, :B, :, :S] = source
        self.mask.zero_()
        self.mask[:B, ..., :S] = True if mask is None else mask
        self.mask[B:, ..., :1] = True  # softmax over nothing is NaN
        self.lengths.zero_()

    def copy(self, smaller: "Space") -> None:
        """Begin with the content of a space that has fewer places for tokens and is otherwise alike."""
        for mine, theirs in ((self.source, smaller.source), (self.mask, smaller.mask), (self.lengths, smaller.lengths)):
            mine.copy_(theirs)
        tokens = smaller.shape.tokens
        self.past[..., :tokens, :] = smaller.past
        self.past[..., tokens:, :] = 0


class Pool:
    """The spaces of one network that no state uses."""

    def __init__(self, records: bool = True) -> None:
        """Args: whether steps are recorded on a GPU."""
        self._free: list[Space] = []  # the last used one is the last
        self._records = records
        self._lock = RLock()  # a state that is collected while this thread holds it gives its space back

    def take(self, shape: Shape, like: Tensor) -> Space:
        """A space of this shape; see `Space`."""
        with self._lock:
            for space in reversed(self._free):
                if space.shape == shape and space.source.dtype == like.dtype:
                    self._free = [one for one in self._free if one is not space]
                    return space
        return Space(shape, like, self._records)

    def give(self, space: Space) -> None:
        """Keep a space for later, and forget those that were not used for the longest time."""
        with self._lock:
            self._free.append(space)
            while sum(one.size for one in self._free) > _KEPT:
                del self._free[:1]


def _power(number: int) -> int:
    """The least power of two that is not lower."""
    return 1 << max(number - 1, 0).bit_length()
