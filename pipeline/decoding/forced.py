"""Translations that begin with given tokens, in every search that generates from left to right.

Within a row's prefix the logits of all tokens but the prefix's own are -inf, so any search takes these tokens, whether
it is greedy, has beams or verifies drafts, and none of them knows about prefixes. A forced token has probability 1:
scores are those of the words after the prefix.

Such a search takes its steps from Python (`engine.sentence` compiles loops for models that nothing is wrapped around).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import DecoderState, Model, is_ordered
from pipeline.model.state import Ints
from pipeline.vocabulary import PAD

Prefixes = Sequence[Sequence[int]]
"""Per sentence, the tokens that its translation begins with, which may be none."""


@dataclass(frozen=True)
class PrefixedLimit(LengthLimit):
    """A limit with room for a prefix on top of what every sentence has."""

    prefixes: tuple[int, ...] = ()
    """The number of forced tokens of each sentence of the batch."""

    def _words(self, source: Tensor) -> list[int]:
        return [min(words + forced, self.longest)
                for words, forced in zip(super()._words(source), self.prefixes, strict=True)]


def searched_model(model: Any) -> Model | None:
    """The model whose words a search returns; None if that is a verifier, and it is absent.

    Args:
        model: an ordered model, or one with a verifier.
    """
    return model if is_ordered(model) else model.verifier


def with_prefixes(model: Any, limit: LengthLimit, prefixes: Prefixes) -> tuple[Any, LengthLimit]:
    """A model whose translations begin with the given tokens, and a limit that has room for them.

    Args:
        model: an ordered model, or one with a verifier, which generates from left to right.
        limit: the greatest length of a translation without a prefix.
        prefixes: one per sentence of the batch to be searched.
    """
    searched = searched_model(model)
    if searched is None:
        return model, limit  # which the search refuses
    forced = Prefixed(searched, prefixes)
    longer = PrefixedLimit(limit.ratio, limit.extra, limit.longest, tuple(map(len, prefixes)))
    return forced if is_ordered(model) else _Verified(model, forced), longer


class Prefixed:
    """An ordered model that generates from left to right, and begins every sentence of one batch with a prefix."""

    kind = "ordered"

    def __init__(self, model: Model, prefixes: Prefixes) -> None:
        self.order, self.encode = model.order, model.encode
        self._model = model
        # One more column, which forces nothing, is that of all later slots.
        self._forced = pad_sequence([torch.tensor([*prefix, PAD]) for prefix in prefixes], batch_first=True,
                                    padding_value=PAD)

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> Any:
        """See `protocol.EncoderDecoder.start`."""
        return _State(self._model.start(memory, beams, capacity), self._forced.repeat_interleave(beams, 0))

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """See `protocol.Model.step`."""
        logits = self._model.step(tokens, state.inner)
        forced = state.forced_next(tokens.shape[1])
        if forced is None:
            return logits
        forced = forced.to(logits.device, non_blocking=True).unsqueeze(2)
        own = logits.gather(2, forced)
        return logits.masked_fill(forced != PAD, -torch.inf).scatter(2, forced, own.masked_fill(forced != PAD, 0))


class _State:
    """A decoder state, what its rows are forced to, and how many tokens they have read."""

    def __init__(self, inner: DecoderState, forced: Tensor) -> None:
        """Args:
            inner: the model's.
            forced: (R, P + 1) tokens by slot, PAD where none is forced, as in the last column.
        """
        self.inner, self._forced, self._read = inner, forced, torch.zeros(len(forced), dtype=torch.long)

    @property
    def hidden(self) -> Tensor | None:
        """See `protocol.DecoderState.hidden`."""
        return self.inner.hidden

    @property
    def rows(self) -> int:
        """R."""
        return len(self._forced)

    def forced_next(self, count: int) -> Tensor | None:
        """Count tokens as read, and return what the slots after them are forced to, (R, count), PAD where to nothing.

        None: nothing is forced any more.
        """
        slots, last = self._read.unsqueeze(1) + torch.arange(count), self._forced.shape[1] - 1
        self._read = self._read + count
        return None if int(slots.min()) >= last else self._forced.gather(1, slots.clamp(max=last))

    def select(self, rows: Tensor) -> None:
        """Keep and reorder rows."""
        self.inner.select(rows)
        if len(rows) != self.rows:  # otherwise every sentence keeps its place, and its beams have one prefix
            rows = rows.cpu()
            self._forced, self._read = self._forced[rows], self._read[rows]

    def rewind(self, lengths: Ints | int) -> None:
        """Forget what is after a length, (R,) or one for all rows."""
        self.inner.rewind(lengths)
        self._read = torch.full_like(self._read, lengths) if isinstance(lengths, int) else torch.from_numpy(lengths)


class _Verified:
    """A model that drafts, with another verifier."""

    def __init__(self, model: Any, verifier: Prefixed) -> None:
        self._model, self.verifier = model, verifier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
