"""Steps of static shapes, for GPUs: a step is recorded once as a CUDA graph and then launched as one operation.

A GPU computes a step of one sentence in less time than a processor needs to launch its kernels one by one. A graph
launches them all at once, but reads and writes the same memory each time (`recorded.py`). So keys and values have
places for more tokens, pieces and sentences than there are (`space.py`), masks hide the places that are not in use, and
the number of tokens read so far is a tensor. The network's own code computes the step (`super()._read`), with a state
that hands out this memory. Encoders and other parts without a state are recorded as they are (`Transformer._recorded`),
of sources that are padded.

On other devices the same steps are computed without a graph: `use_engine("static")`, with which tests compare both.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.engine.choice import engine_in_use
from pipeline.engine.reading import Ints
from pipeline.engine.recorded import Recorder, Recording
from pipeline.engine.space import Pool, Shape, Space
from pipeline.engine.waiting import on_device
from pipeline.vocabulary import PAD

_PIECES = 16
"""Encoders read sources of multiples of it, so that few shapes occur."""
_STEPS = 16
"""The most steps that a space keeps."""
_Network: Any = object
Read = Callable[[Tensor, Any, bool], tuple[Tensor, Tensor]]
"""A network's `_read`: tokens (R, n), a state and whether to project, to hidden states (R, n, D) and logits."""


class Static(_Network):
    """The first base class of a network opened for a GPU, before the network's own class (`door.open_engine`)."""

    pool: Pool
    recorder: Recorder

    def clear_caches(self) -> None:
        super().clear_caches()
        self.pool, self.recorder = Pool(), Recorder()

    def with_vocabulary(self, ids: Tensor) -> Any:
        """See `pipeline.model.transformer.Transformer.with_vocabulary`."""
        short = super().with_vocabulary(ids)
        # Steps project onto this vocabulary, which is gone after a sentence: too soon for a graph to pay.
        vars(short).update(pool=Pool(records=False), recorder=Recorder())
        return short

    def encode(self, source: Tensor) -> Any:
        """See `pipeline.model.transformer.Transformer.encode`; the memory is that of a padded source."""
        if engine_in_use() != "torch":
            room = self.settings.max_length - source.shape[1]
            source = F.pad(source, (0, max(0, min(-source.shape[1] % _PIECES, room))), value=PAD)
        return super().encode(source)

    def _recorded(self, name: str, function: Callable[..., Any], *tensors: Tensor) -> Any:
        return function(*tensors) if engine_in_use() == "torch" else self.recorder(name, function, *tensors)

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> Any:
        """See `pipeline.model.transformer.Transformer.start`.

        The `hidden` states and the logits of a step are valid until the next step of the same state.
        """
        if engine_in_use() == "torch":
            return super().start(memory, beams, capacity)
        own = super().start(memory, beams, 0)
        return StaticState(self.pool, own.source, own.source_mask, beams, capacity, len(self._position_tables().target))

    def _read(self, tokens: Tensor, state: Any, projected: bool) -> tuple[Tensor, Tensor]:
        read: Read = super()._read
        return state.read(read, tokens, projected) if isinstance(state, StaticState) else read(tokens, state, projected)

    @staticmethod
    def _source_mask(source: Tensor) -> Tensor:
        return (source != PAD)[:, None, None, :]  # always: to know whether it can be left out is to wait for the GPU


class StaticState:
    """A decoder state in a space, with the attributes and methods of `pipeline.model.state.State`."""

    def __init__(self, pool: Pool, source: Tensor, source_mask: Tensor | None, beams: int, capacity: int,
                 most: int) -> None:
        """Args:
            pool: of the network.
            source: (L, 2, B, heads, S, D / heads), keys and values of the source.
            source_mask: (B, 1, 1, S) or None.
            beams: rows per sentence.
            capacity: places for tokens at first.
            most: places for tokens that the network has.
        """
        self.beams, self.length = beams, 0
        self.hidden: Tensor | None = None
        self._pool, self._most = pool, most
        self._give_back: weakref.finalize[..., StaticState] | None = None
        self._sentences, self._pieces = source.shape[2], source.shape[4]
        self.lengths: Ints | None = None
        self._counted = True  # whether the space's lengths are those of the rows
        self._move(self._shape(capacity), source, lambda space: space.load(source, source_mask))

    @property
    def rows(self) -> int:
        """R, sentences times beams."""
        return self._sentences * self.beams

    @property
    def source(self) -> Tensor:
        """(L, 2, B, heads, places, D / heads)."""
        return self._space.source[:, :, :self._sentences]

    @property
    def source_mask(self) -> Tensor:
        """(B, 1, 1, places)."""
        return self._space.mask[:self._sentences]

    def read(self, read: Read, tokens: Tensor, projected: bool) -> tuple[Tensor, Tensor]:
        """`read` the next tokens (R, n) of every row in a static step; see `Read` for the result.

        Raises:
            IndexError: the network has no places for so many.
        """
        R, n = tokens.shape
        self.reserve(n)
        if not self._counted:
            if self.lengths is None:
                self._space.lengths.fill_(self.length)
            else:
                self._space.lengths[:R].copy_(torch.from_numpy(self.lengths), non_blocking=True)
            self._counted = True
        key = n, projected, torch.is_autocast_enabled(tokens.device.type)
        steps = self._space.steps
        if key not in steps:
            steps[key] = _Step(self._space, *key)
            if len(steps) > _STEPS:
                steps.popitem(last=False)
        steps.move_to_end(key)
        hidden, logits = (one[:R] for one in steps[key](read, tokens))
        self._count(n)
        self.hidden = hidden
        return hidden, logits

    def reserve(self, tokens: int) -> None:
        """Have places for `tokens` more after the longest row."""
        needed, before = self.length + tokens, self._space
        if needed > self._most:
            raise IndexError(f"{needed} tokens are more than the {self._most} places of the network")
        if needed > before.shape.tokens:
            self._move(self._shape(needed), before.source, lambda space: space.copy(before))

    def slots(self, tokens: int) -> Tensor:
        """Slots of the next `tokens` tokens, (tokens,) or (R, tokens)."""
        ahead = torch.arange(tokens, device=self._space.lengths.device)
        if self.lengths is None:
            return ahead + self.length
        return ahead + on_device(self.lengths, ahead.device).unsqueeze(1)

    def append(self, layer: int, keys_values: Tensor) -> Tensor:
        """Store keys and values of rows of the same length, not in a static step; see `State.append`."""
        end = self.length + keys_values.shape[3]
        past = self._space.past[layer][:, :self.rows, :, :end]
        past[:, :, :, self.length:] = keys_values
        return past

    def advance(self, tokens: int) -> None:
        """Count tokens that every layer has appended."""
        self._count(tokens)
        self._counted = False

    def _count(self, tokens: int) -> None:
        self.length += tokens
        if self.lengths is not None:
            self.lengths = self.lengths + tokens

    def select(self, rows: Tensor) -> None:
        """Keep and reorder rows; see `State.select`."""
        if self.lengths is not None:
            self.rewind(self.lengths[rows.numpy()])
        before, rows = self._space, rows.to(self._space.past.device, non_blocking=True)
        past = before.past[..., :self.length, :].index_select(2, rows)
        if len(rows) != self.rows:
            sentences = rows[::self.beams] // self.beams
            source, mask = before.source.index_select(2, sentences), before.mask.index_select(0, sentences)
            self._sentences = len(sentences)
            if (shape := self._shape(before.shape.tokens)) != before.shape:
                self._move(shape, source, lambda space: space.load(source, mask))
            else:
                before.source[:, :, :len(sentences)], before.mask[:len(sentences)] = source, mask
        self._space.past[:, :, :len(rows), :, :self.length] = past
        self._counted &= self._space is before

    def rewind(self, lengths: Ints | int) -> None:
        """Forget what is after the given lengths, (R,) or one number, which are at most the present ones."""
        self._counted = False
        if isinstance(lengths, int):
            self.length, self.lengths = lengths, None
        else:
            self.length, self.lengths = int(lengths.max(initial=0)), lengths

    def _shape(self, tokens: int) -> Shape:
        return Shape.around(self._sentences, self.beams, self._pieces, tokens, self._most)

    def _move(self, shape: Shape, like: Tensor, fill: Callable[[Space], None]) -> None:
        """Use a space of this shape, and `fill` it, whose content is undefined.

        The pool gets a space back when this state is gone, or has moved to another one and filled it: it may then be
        another state's at once.
        """
        give_back, self._space = self._give_back, self._pool.take(shape, like)
        self._give_back = weakref.finalize(self, self._pool.give, self._space)
        self._give_back.atexit = False
        fill(self._space)
        if give_back is not None:
            give_back()


class _Places:
    """The state that a network's `_read` sees in a static step: all rows of a space, with their lengths in a tensor.

    Of the slots it sees all, and the mask of its order hides those that are not in use.
    """

    hidden: Tensor | None = None

    def __init__(self, space: Space, tokens: int) -> None:
        self.source, self.source_mask, self.lengths = space.source, space.mask, space.lengths
        self._past, self._rows = space.past, torch.arange(len(space.lengths), device=space.lengths.device).unsqueeze(1)
        self.length = space.shape.tokens - tokens  # so that masks have all places as columns

    def reserve(self, tokens: int) -> None:
        """Nothing: the state has done it."""

    def slots(self, tokens: int) -> Tensor:
        """(R, tokens); those of rows that are not in use stay inside the space."""
        ahead = torch.arange(tokens, device=self.lengths.device)
        return (ahead + self.lengths.unsqueeze(1)).clamp_(max=self._past.shape[4] - 1)

    def append(self, layer: int, keys_values: Tensor) -> Tensor:
        """Store keys and values (2, R, heads, n, D / heads), and return those of all places."""
        past = self._past[layer]
        past.transpose(2, 3)[:, self._rows, self.slots(keys_values.shape[3])] = keys_values.transpose(2, 3)
        return past

    def advance(self, tokens: int) -> None:
        """Count tokens that every layer has appended."""
        self.lengths.add_(tokens)


class _Step:
    """One step over n tokens of every row of a space. Its results are overwritten by the next step of the space.

    It does not hold the network: that would be a cycle, which keeps the pool's memory until it happens to be collected.
    """

    def __init__(self, space: Space, tokens: int, projected: bool, mixed: bool) -> None:
        with torch.inference_mode(False):  # see `space.Space`
            self._arguments = space.lengths.new_zeros(len(space.lengths), tokens), _Places(space, tokens), projected
        # Autocast would keep copies of weights outside the graph.
        self.recording = Recording[tuple[Tensor, Tensor]](space.records and not mixed, space.graphs)

    def __call__(self, read: Read, tokens: Tensor) -> tuple[Tensor, Tensor]:
        self._arguments[0][:len(tokens)] = tokens
        return self.recording(lambda: read(*self._arguments))
