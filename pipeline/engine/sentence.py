"""Searches of a single sentence in one compiled call: nothing returns to Python between its steps.

Every function returns None, and has done nothing, where the engine has not opened the model (`door`) or does not
compile a step of this width. The search then takes its steps from Python.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.engine.network import Compiled
from pipeline.engine.reading import Bools, Floats, Ints, Reading
from pipeline.vocabulary import PAD

if TYPE_CHECKING:
    from pipeline.engine.draft_and_verify import DraftState


def _reading_of(model: Any, state: Any, tokens: int, at_once: int = 1, rounded: bool = False) -> Reading | None:
    return model.reading(state, tokens, at_once, rounded) if isinstance(model, Compiled) else None


def greedy(model: Any, state: Any, most: int) -> Ints | None:
    """Greedy search.

    Args:
        model: an ordered model.
        state: of one row that has read nothing.
        most: the most steps.

    Returns:
        (T <= most, z), the steps taken, end symbols included.
    """
    order, z = model.order, model.order.width
    if (reading := _reading_of(model, state, most * z, z)) is None:
        return None
    from pipeline.engine.greedy import search  # numba: half a second that no other search needs
    steps = np.empty((most, z), np.int64)
    return steps[:search(np.array(order.starts), order.end, steps, reading)]


def score(model: Any, state: Any, steps: Ints) -> float | None:
    """The summed log-probability of steps (T, z) that a search took, by a model's state that has read nothing."""
    reading = _reading_of(model, state, steps.size, steps.shape[1])
    if reading is None:
        return None
    from pipeline.engine.greedy import score as scored
    return scored(np.array(model.order.starts), steps, reading)


class Beams(NamedTuple):
    """The N best hypotheses of one sentence, best first."""

    slots: Ints
    """(N, T z), end symbols after them."""
    scores: Floats
    """(N,), penalised; -inf where there is none."""
    ended: Bools
    """(N,), whether by an end symbol."""
    calls: int
    """Steps taken."""


def beam(model: Any, state: Any, divisors: Floats, candidates: tuple[Ints, Ints, int] | None, hypotheses: int,
         nbest: int) -> Beams | None:
    """Beam search with K beams.

    Args:
        model: an ordered model.
        state: of K rows that have read nothing.
        divisors: (T + 1,), the length penalty after every number of steps; T is the limit.
        candidates: of a step: the beam that each continues, (N,), the places of its words, (N, z), and how many of
            them do not end; see `pipeline.decoding.beam`. None: a step is a pair, see `pipeline.decoding.pair_beam`.
        hypotheses: H, the number of finished hypotheses at which the search is done.
        nbest: hypotheses to return, at most H.
    """
    order, z, K, longest = model.order, model.order.width, state.rows, len(divisors) - 1
    reading = _reading_of(model, state, longest * z, K * z)
    if reading is None or len(reading.packed.output_scale) <= K:
        return None
    from pipeline.engine.beam import Finished, Steps, backtrace, search  # numba: half a second that few searches need
    steps = Steps(np.empty((longest, K), np.int64), np.empty((longest, K, z), np.int64))
    H, (parents, places, going) = hypotheses, candidates or (np.empty(0, np.int64), np.empty((0, z), np.int64), 0)
    finished = Finished(np.zeros(1, np.int64), np.empty(H), np.empty(H, np.int64), np.empty(H, np.int64),
                        np.empty((H, z), np.int64), np.zeros(H, np.bool_))
    calls = search(reading, np.array(order.starts), order.end, divisors, parents, places, going, nbest, steps, finished)
    count = min(nbest, int(finished.found[0]))
    slots, scores = np.full((nbest, longest * z), order.end), np.full(nbest, -np.inf)
    for hypothesis in range(count):
        backtrace(steps, finished, hypothesis, slots[hypothesis])
    scores[:count] = finished.scores[:count]
    return Beams(slots, scores, finished.ended[:nbest] & (scores > -np.inf), calls)


class Filled(NamedTuple):
    """The targets of K lengths."""

    tokens: Ints
    """(K, N), PAD after a target's words."""
    certainty: Floats
    """(K, N), the log-probability of each word when it was last predicted; infinite after a target's words."""
    calls: int
    """Iterations in which a word was predicted."""


def mask_predict(model: Any, state: Any, lengths: Ints, iterations: int, no_words: Sequence[int]) -> Filled | None:
    """Mask-Predict.

    Args:
        model: a masked model.
        state: of K rows.
        lengths: (K,) words.
        iterations: the most iterations.
        no_words: ids that must not be predicted.
    """
    if (reading := _reading_of(model, state, 0)) is None:
        return None
    from pipeline.engine.masked import fill_in  # numba: half a second that no other search needs
    size = len(lengths), int(lengths.max())
    tokens, certainty = np.full(size, PAD), np.full(size, np.inf, reading.packed.vectors.dtype)
    return Filled(tokens, certainty, fill_in(lengths, iterations, np.array(no_words), reading, tokens, certainty))


class Found(NamedTuple):
    """A translation by draft and verify."""

    words: Ints
    """(1, T), end symbols after them."""
    steps: Ints
    """(T', 1), the accepted tokens, the end symbol included."""
    ends: Bools
    """(1,), whether the end symbol was accepted."""
    calls: int
    """Of the verifier."""
    drafter_calls: int
    """Of the drafter's own network."""
    rounds: Callable[[], list[tuple[Ints, Ints, Ints]]]
    """Builds every round: the draft (1, n), the verifier's predictions (1, n + 1), how many were accepted (1,)."""


class Sentence:
    """A single sentence to be translated by draft and verify, with one method per drafter.

    Each of these methods returns the calls of the drafter's network, and `found` then returns the translation.
    """

    def __init__(self, verifier: Any, state: Any, most: int, longest: int, beta: int, tau: float) -> None:
        """Args:
            verifier: an ordered model of one token per step.
            state: its state of one row that has read nothing.
            most: the most tokens of the output, the end symbol included.
            longest: the most tokens that the verifier reads, the start symbol not counted.
            beta, tau: see `pipeline.decoding.prefix.Acceptance.limits`.
        """
        self._verifier, self._state, self._acceptance = verifier, state, (beta, tau)
        self._most, self._longest = most, longest
        self._draft_state: DraftState | None = None

    def nothing(self) -> int | None:
        """Nothing is drafted."""
        return self.last_iterate(0, 1, False, 0, np.empty(0, np.int64))  # a block of one word has no iterate

    def copy(self, source: Ints, shortest: int, longest: int, block: int) -> int | None:
        """Drafts are copied from the source; see `draft_and_verify.copy`."""
        if (state := self._prepared(block)) is None:
            return None
        from pipeline.engine.draft_and_verify import copy
        copy(state, source, shortest, longest, block)
        return 0

    def last_iterate(self, width: int, block: int, hybrid: bool, expected: int, start: Ints) -> int | None:
        """Drafts are the verifier's last iterate; see `draft_and_verify.iterate`."""
        if (state := self._prepared(width)) is None:
            return None
        from pipeline.engine.draft_and_verify import iterate
        iterate(state, width, block, hybrid, expected, start)
        return 0

    def small_model(self, model: Any, drafter_state: Any, block: int) -> int | None:
        """Drafts are a small model's own continuation; see `draft_and_verify.speculate`."""
        drafter = _reading_of(model, drafter_state, self._most + block, rounded=True)
        if drafter is None or (state := self._prepared(block)) is None:
            return None
        from pipeline.engine.draft_and_verify import speculate
        speculate(state, drafter, block)
        return int(state.drafted[:state.rounds[0]].sum())

    def blocks(self, model: Any, drafter_state: Any, block: int) -> int | None:
        """Drafts are blocks of masks that a network fills at once; see `draft_and_verify.draft_blocks`."""
        drafter = _reading_of(model, drafter_state, self._most + 2 * block, 2 * block, rounded=True)
        if drafter is None or (links := model.packed_links()) is None or (state := self._prepared(block)) is None:
            return None
        from pipeline.engine.draft_and_verify import draft_blocks
        draft_blocks(state, drafter, links, block)
        return int(state.rounds[0])

    def heads(self, model: Any, tokens: int) -> int | None:
        """Drafts are predictions of the verifier's own heads; see `draft_and_verify.draft_heads`."""
        if not isinstance(model, Compiled) or (links := model.packed_links()) is None:
            return None
        if (heads := model.packed_heads()) is None or (state := self._prepared(tokens)) is None:
            return None
        from pipeline.engine.draft_and_verify import draft_heads
        draft_heads(state, heads, links, tokens)
        return 0

    def words_in_place(self, words: Ints, block: int) -> int | None:
        """Drafts are the words (N,) that are expected at the next positions; see `draft_and_verify.propose_words`."""
        if (state := self._prepared(block := min(block, len(words)))) is None:
            return None
        from pipeline.engine.draft_and_verify import propose_words
        propose_words(state, words, block)
        return 0

    def lattice_paths(self, words: Ints, following: Ints, entries: Ints, block: int) -> int | None:
        """Drafts are the best continuations in a lattice; see `draft_and_verify.continue_paths`."""
        if (state := self._prepared(block := min(block, len(words)))) is None:
            return None
        from pipeline.engine.draft_and_verify import continue_paths
        continue_paths(state, words, following, entries, block)
        return 1

    def found(self, drafter_calls: int) -> Found:
        """The translation and copies of its rounds, so that it does not keep the large arrays of the search."""
        state = self._draft_state
        assert state is not None  # one of the methods above has searched
        calls, length = int(state.rounds[0]), int(state.length[0])
        drafted, accepted = state.drafted[:calls].copy(), state.accepted[:calls].copy()
        widest = int(drafted.max(initial=0))
        drafts, predicted = state.drafts[:calls, :widest].copy(), state.predicted[:calls, :widest + 1].copy()
        steps = state.words[0, 1:length, None].copy()
        return Found(state.words[:, 1:], steps, state.ends, calls, drafter_calls, lambda: [
            (drafts[now:now + 1, :n], predicted[now:now + 1, :n + 1], accepted[now:now + 1])
            for now, n in enumerate(drafted.tolist())])

    def _prepared(self, block: int) -> "DraftState | None":
        """The draft state before the first round, for drafts of `block` tokens; None: the verifier is not compiled."""
        reading = _reading_of(self._verifier, self._state, self._most + block, block + 1)
        if reading is None:
            return None
        from pipeline.engine.draft_and_verify import DraftState  # numba: half a second that no other search needs
        most, order, packed = self._most, self._verifier.order, reading.packed
        D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
        words = np.full((1, 1 + most), order.end)
        words[0, 0] = order.starts[0]
        self._draft_state = DraftState(
            reading, self._longest, order.end, *self._acceptance, words=words,
            length=np.ones(1, np.int64), remaining=np.full(1, most), rounds=np.zeros(1, np.int64),
            drafts=np.empty((most, block), np.int64), drafted=np.empty(most, np.int64),
            predicted=np.empty((most, block + 1), np.int64), accepted=np.empty(most, np.int64),
            ends=np.zeros(1, np.bool_),
            hidden=np.empty((block + 1) * D, number), logits=np.empty((block + 1, V), number),
            bounds=np.empty((block + 1, len(packed.screen.lost)), number), inputs=np.empty(block + 1, np.int64))
        return self._draft_state
