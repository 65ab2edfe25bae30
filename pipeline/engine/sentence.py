"""Searches in one compiled call, of a sentence or, greedily, of several: nothing returns to Python between its steps.

Every function returns None, and has done nothing, where the engine has not opened the model (`door`) or does not
compile a step of this width. The search then takes its steps from Python.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from pipeline.engine.network import Compiled, sharing_by
from pipeline.engine.reading import Bools, Floats, Ints, Reading
from pipeline.vocabulary import PAD

P = ParamSpec("P")
T = TypeVar("T")


def _with_helpers(search: Callable[P, T]) -> Callable[P, T]:
    """Let the other cores share the products of a search, if its model, the first argument, is wide enough."""
    @wraps(search)
    def shared(*arguments: P.args, **named: P.kwargs) -> T:
        model: Any = arguments[0]._verifier if isinstance(arguments[0], Sentence) else arguments[0]
        with sharing_by(model):
            return search(*arguments, **named)
    return shared


def _reading_of(model: Any, state: Any, tokens: int, at_once: int = 1, rounded: bool = False) -> Reading | None:
    return model.reading(state, tokens, at_once, rounded) if isinstance(model, Compiled) else None


@_with_helpers
def greedy(model: Any, state: Any, most: Ints) -> tuple[Ints, Ints] | None:
    """Greedy search of R sentences.

    Args:
        model: an ordered model.
        state: of one row per sentence, which has read nothing.
        most: (R,), the most steps of each, at least 1.

    Returns:
        (R, T, z), the steps taken, end symbols included, and end symbols after them; and (R,), the numbers of steps
        taken.
    """
    order, z, R, longest = model.order, model.order.width, len(most), int(most.max(initial=0))
    if (reading := _reading_of(model, state, longest * z, z)) is None:
        return None
    from pipeline.engine.greedy import search  # numba: half a second that no other search needs
    steps, counts = np.full((R, longest, z), order.end), np.zeros(R, np.int64)
    search(np.array(order.starts), order.end, most, reading, steps, counts)
    return steps, counts


@_with_helpers
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


@_with_helpers
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
    if not isinstance(model, Compiled):  # whose state might not know its rows
        return None
    order, z, K, longest = model.order, model.order.width, state.rows, len(divisors) - 1
    reading = _reading_of(model, state, longest * z, z)
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


@_with_helpers
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
    """A single sentence to be translated by draft and verify, with one method per drafter."""

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

    def nothing(self) -> Found | None:
        """Nothing is drafted."""
        return self.last_iterate(0, 1, False, 0, np.empty(0, np.int64))  # a block of one word has no iterate

    def copy(self, source: Ints, shortest: int, longest: int, block: int) -> Found | None:
        """Drafts are copied from the source; see `drafts.copy_source`."""
        from pipeline.engine.draft_and_verify import copy  # numba: half a second that no other search needs
        return self._search(copy, block, source, shortest, longest)

    def last_iterate(self, width: int, block: int, hybrid: bool, expected: int, start: Ints) -> Found | None:
        """Drafts are the verifier's last iterate, at most `width` tokens; see `drafts.last_iterate`."""
        from pipeline.engine.draft_and_verify import iterate
        return self._search(iterate, width, block, hybrid, expected, start)

    def words_in_place(self, words: Ints, block: int) -> Found | None:
        """Drafts are the words (N,) that are expected at the next positions; see `drafts.words_in_place`."""
        from pipeline.engine.draft_and_verify import propose_words
        return self._search(propose_words, min(block, len(words)), words)

    def lattice_paths(self, words: Ints, following: Ints, entries: Ints, block: int) -> Found | None:
        """Drafts are the best continuations in a lattice; see `continuation.read_on`."""
        from pipeline.engine.draft_and_verify import continue_paths
        return self._search(continue_paths, min(block, len(words)), words, following, entries)

    @_with_helpers
    def small_model(self, model: Any, state: Any, block: int) -> Found | None:
        """Drafts are a small model's own continuation."""
        drafter = _reading_of(model, state, self._most + block, rounded=True)
        if drafter is None:
            return None
        from pipeline.engine.draft_and_verify import speculate
        return self._search(speculate, block, drafter)

    @_with_helpers
    def blocks(self, model: Any, state: Any, block: int) -> Found | None:
        """Drafts are blocks of masks that a network fills at once."""
        drafter = _reading_of(model, state, self._most + 2 * block, 2 * block, rounded=True)
        if drafter is None or (chain := model.packed_chain()) is None:
            return None
        from pipeline.engine.draft_and_verify import draft_blocks
        return self._search(draft_blocks, block, drafter, chain)

    @_with_helpers
    def heads(self, model: Any, tokens: int) -> Found | None:
        """Drafts are predictions of the verifier's own heads."""
        if (not isinstance(model, Compiled) or (chain := model.packed_chain()) is None
                or (heads := model.packed_heads()) is None):
            return None
        from pipeline.engine.draft_and_verify import draft_heads
        return self._search(draft_heads, tokens, heads, chain)

    @_with_helpers
    def _search(self, loop: Callable[..., int], block: int, *parameters: Any) -> Found | None:
        """Let a loop of `draft_and_verify` translate, by drafts of at most `block` tokens, with its own parameters."""
        reading = _reading_of(self._verifier, self._state, self._most + block, block + 1)
        if reading is None:
            return None
        from pipeline.engine.draft_and_verify import DraftState  # numba: half a second that no other search needs
        most, order, packed = self._most, self._verifier.order, reading.packed
        D, V, number = packed.positions.shape[1], len(packed.output_scale), packed.vectors.dtype
        words = np.full((1, 1 + most), order.end)
        words[0, 0] = order.starts[0]
        state = DraftState(
            reading, self._longest, order.end, *self._acceptance, words=words,
            length=np.ones(1, np.int64), remaining=np.full(1, most), rounds=np.zeros(1, np.int64),
            drafts=np.empty((most, block), np.int64), drafted=np.empty(most, np.int64),
            predicted=np.empty((most, block + 1), np.int64), accepted=np.empty(most, np.int64),
            ends=np.zeros(1, np.bool_),
            hidden=np.empty((block + 1) * D, number), logits=np.empty((block + 1, V), number),
            bounds=np.empty((block + 1, len(packed.screen.lost)), number), inputs=np.empty(block + 1, np.int64))
        drafter_calls = loop(state, block, *parameters)
        # Copies of the rounds, so that the result does not keep the large arrays of the search.
        calls, length = int(state.rounds[0]), int(state.length[0])
        drafted, accepted = state.drafted[:calls].copy(), state.accepted[:calls].copy()
        widest = int(drafted.max(initial=0))
        drafts, predicted = state.drafts[:calls, :widest].copy(), state.predicted[:calls, :widest + 1].copy()
        return Found(words[:, 1:], words[0, 1:length, None].copy(), state.ends, calls, drafter_calls, lambda: [
            (drafts[now:now + 1, :n], predicted[now:now + 1, :n + 1], accepted[now:now + 1])
            for now, n in enumerate(drafted.tolist())])
