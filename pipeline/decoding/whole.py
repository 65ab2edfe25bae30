"""One sentence to be translated by draft and verification in one compiled call (`engine.draft_and_verify`).

Of what a round of a small model takes, much is the way back to Python and the next call from there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.decoding.prefix import Acceptance, Bools, Ints
from pipeline.decoding.protocol import DecoderState, Model
from pipeline.engine.reading import Reading

if TYPE_CHECKING:
    from pipeline.engine.draft_and_verify import Line


class Found(NamedTuple):
    """A translation."""

    words: Ints
    """(1, T), end symbols behind."""
    said: Ints
    """(T', 1), what was accepted, the end symbol included."""
    ends: Bools
    """(1,), whether the end symbol is among what was accepted."""
    calls: int
    """Of the verifier."""
    rounds: Callable[[], list[tuple[Ints, Ints, Ints]]]
    """Draft (1, n), what the verifier says (1, n + 1), and how many of these were accepted, (1,)."""


class Sentence:
    """A sentence before its search: a drafter asks for its `line`, and runs its loop over that."""

    def __init__(self, verifier: Model, state: DecoderState, most: int, longest: int, acceptance: Acceptance) -> None:
        """Args:
            verifier: an ordered model of one token a step.
            state: its state of one row that has read nothing.
            most: tokens of the longest output, the end symbol among them.
            longest: tokens that the verifier reads at most, the start symbol not counted.
            acceptance: of proposed tokens.
        """
        self._verifier, self._state, self._acceptance = verifier, state, acceptance
        self.most, self._longest = most, longest
        self._line: Line | None = None

    def line(self, block: int) -> "Line | None":
        """What a loop works on whose drafts have at most so many tokens; None where the verifier is not compiled."""
        from pipeline.engine.draft_and_verify import Line  # numba: half a second that no other search needs
        most, order = self.most, self._verifier.order
        reading = reading_of(self._verifier, self._state, most + block, block + 1)
        if reading is None:
            return None
        packed = reading.packed
        D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
        words = np.full((1, 1 + most), order.end)
        words[0, 0] = order.starts[0]
        self._line = Line(
            reading, self._longest, order.end, self._acceptance.beta, self._acceptance.tau, words=words,
            length=np.ones(1, np.int64), left=np.full(1, most), rounds=np.zeros(1, np.int64),
            drafts=np.empty((most, block), np.int64), drafted=np.empty(most, np.int64),
            said=np.empty((most, block + 1), np.int64), accepted=np.empty(most, np.int64), ends=np.zeros(1, np.bool_),
            hidden=np.empty((block + 1) * D, number), logits=np.empty((block + 1, V), number),
            bounds=np.empty((block + 1, len(packed.screen.lost)), number), tokens=np.empty(block + 1, np.int64))
        return self._line

    def found(self) -> Found:
        """What the loop has made of the line."""
        line = self._line
        assert line is not None  # the drafter has run its loop
        calls = int(line.rounds[0])
        # Only what is small: with the line, the state of the search would stay in memory.
        drafted, drafts, said, accepted = line.drafted[:calls].tolist(), line.drafts, line.said, line.accepted
        return Found(line.words[:, 1:], line.words[0, 1:line.length[0], None], line.ends, calls, lambda: [
            (drafts[now:now + 1, :n], said[now:now + 1, :n + 1], accepted[now:now + 1])
            for now, n in enumerate(drafted)])


def scored_later(model: Any, source: Tensor, said: Ints) -> Callable[[], Tensor]:
    """What computes the score of a sentence that was searched in one compiled call, when somebody asks for it.

    It reads the source and what was said once more: with the state of the search, its keys and values would stay in
    memory for as long as the hypotheses do.

    Args:
        model: that was searched.
        source: (1, S) ids.
        said: (T, z), the steps taken, end symbols included.

    Returns:
        A function that returns the summed log-probability, (1, 1).
    """
    @torch.inference_mode()
    def scored() -> Tensor:
        from pipeline.engine.greedy import score
        starts = np.array(model.order.starts)
        state = model.start(model.encode(source), capacity=said.size)
        reading = reading_of(model, state, said.size, said.shape[1])
        assert reading is not None  # it was searched in one compiled call
        return torch.tensor([[score(starts, said, reading)]], dtype=torch.float64)
    return scored


def reading_of(model: Any, state: Any, tokens: int, at_once: int = 1, rounded: bool = False) -> Reading | None:
    """`Transformer.reading`, of a model that has it; None of others."""
    read = getattr(model, "reading", None)
    found: Reading | None = read and read(state, tokens, at_once, rounded)
    return found
