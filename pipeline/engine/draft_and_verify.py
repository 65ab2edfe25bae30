"""Draft and verify for one sentence, compiled: nothing returns to Python between rounds.

There is one loop per drafter, around the same `verify`. Each gives the result of `decoding.verify` with the drafter
that it names, round by round, which tests compare, and returns the calls of the drafter's own network.
"""

from typing import NamedTuple

import numpy as np

from pipeline.compiled import njit
from pipeline.engine import drafts
from pipeline.engine.assign import assign
from pipeline.engine.continuation import read_on
from pipeline.engine.decoder import read
from pipeline.engine.greedy import run_ahead
from pipeline.engine.heads import head_states
from pipeline.engine.reading import Bools, Floats, Ints, PackedChain, PackedHeads, Reading
from pipeline.engine.screen import best_words, count_above, logit_of
from pipeline.engine.token_chain import choose_chained
from pipeline.engine.verdict import accept, is_acceptable
from pipeline.vocabulary import MASK


class DraftState(NamedTuple):
    """The translation of one sentence so far, and a record of its rounds, of at most k drafted tokens each.

    Entries of later rounds are undefined.
    """

    verifier: Reading
    longest: int
    """The most tokens that the verifier reads, the start symbol not counted."""
    end: int
    """The end symbol."""
    beta: int
    """See `prefix.Acceptance.limits`."""
    tau: float
    """See `prefix.Acceptance.limits`."""
    words: Ints
    """(1, T): the start symbol and the accepted tokens; the rest is undefined."""
    length: Ints
    """(1,), the number of these tokens."""
    remaining: Ints
    """(1,), tokens that may still be accepted."""
    rounds: Ints
    """(1,), rounds so far."""
    drafts: Ints
    """(rounds, k)."""
    drafted: Ints
    """(rounds,), tokens of each draft."""
    predicted: Ints
    """(rounds, k + 1), the verifier's predictions in place of the draft and after it."""
    accepted: Ints
    """(rounds,), how many of these were accepted."""
    ends: Bools
    """(1,), whether the end symbol has been accepted."""
    hidden: Floats
    """((k + 1) D,), the verifier's states of the last round, one after the other."""
    logits: Floats
    """(k + 1, V), their logits; see `screen.best_words`."""
    bounds: Floats
    """(k + 1, panels), upper bounds of these logits; see `screen.best_words`."""
    inputs: Ints
    """(k + 1,), the tokens that the verifier reads in a round."""


@njit(cache=True, nogil=True)
def verify(state: DraftState, drafted: int) -> bool:
    """Let the verifier judge the first `drafted` tokens of this round's draft, and accept.

    Returns:
        Whether the translation is over.

    Raises:
        IndexError: the draft holds an id outside the vocabulary, or there are more tokens than positions.
    """
    now, n, packed = state.rounds[0], drafted + 1, state.verifier.packed
    # Contiguous, as in greedy search: for other rows `best_words` and `accept` would be compiled once more.
    draft, predicted = state.drafts[now, :drafted].reshape(1, drafted), state.predicted[now, :n].reshape(1, n)
    D, inputs = packed.positions.shape[1], state.inputs[:n].reshape(1, n)
    inputs[0, 0] = state.words[0, state.length[0] - 1]
    assign(draft[0], inputs[0, 1:])
    hidden = state.hidden[:n * D].reshape(1, n, D)
    if not read(inputs, state.length - 1, state.verifier, hidden):
        raise IndexError("the drafter proposed what the verifier does not know, or more than it has places for")
    best_words(hidden[0], packed, state.logits[:n], state.bounds[:n], predicted[0], state.verifier.team)
    if state.beta > 0:
        for i in range(drafted):
            if draft[0, i] != predicted[0, i] and _accepts(state, hidden[0], i, draft[0, i], predicted[0, i]):
                predicted[0, i] = draft[0, i]
    _, _, over = accept(predicted, draft, state.end, state.remaining, state.words, state.length,
                        state.accepted[now:now + 1], state.ends)
    state.drafted[now] = drafted
    state.rounds[0] += 1
    return over


@njit(cache=True, nogil=True)
def _accepts(state: DraftState, hidden: Floats, i: int, word: int, best: int) -> bool:
    """Whether a drafted word is accepted in place of the best one, by the logits of state i."""
    packed = state.verifier.packed
    logit = logit_of(hidden, i, packed, state.logits, word)
    above = count_above(hidden, i, packed, state.logits, state.bounds, logit, state.beta)
    return is_acceptable(word, state.logits[i, best] - logit, above, state.beta, state.tau)


@njit(cache=True, nogil=True)
def _next_draft(state: DraftState, block: int) -> Ints:
    """Where the draft of this round is written, of at most `block` tokens and as many as there is room for."""
    return state.drafts[state.rounds[0], :drafts.room_for(block, state.longest, state.length[0])]


@njit(cache=True, nogil=True)
def speculate(state: DraftState, block: int, drafter: Reading) -> int:
    """Draft like `speculative.SmallModel`: the drafter's own continuation."""
    known = 0
    while True:
        count, draft = state.length[0], _next_draft(state, block)
        if len(draft):
            known = min(known, count - 1)  # tokens that it has read; its own accepted ones it need not read again
            run_ahead(state.words[0, known:count], draft, known, drafter)
            known = count + len(draft) - 1
        if verify(state, len(draft)):
            return state.drafted[:state.rounds[0]].sum()


@njit(cache=True, nogil=True)
def draft_blocks(state: DraftState, block: int, drafter: Reading, chain: PackedChain) -> int:
    """Draft like `gad.NetworkDrafter`: the states of the last token and of k - 1 masks after it, linked."""
    known, D, number = 0, drafter.packed.positions.shape[1], drafter.packed.vectors.dtype
    tokens, hidden = np.empty(2 * block, np.int64), np.empty(2 * block * D, number)
    length = np.empty(1, np.int64)
    while True:
        count, draft = state.length[0], _next_draft(state, block)
        k = len(draft)
        if k:
            new = count - known
            n = new + k - 1
            assign(state.words[0, known:count], tokens)
            tokens[new:n] = MASK
            length[0] = known
            read(tokens[:n].reshape(1, n), length, drafter, hidden[:n * D].reshape(1, n, D))
            _draft_chained(state, hidden[(new - 1) * D:n * D], chain, draft)
            known = count
        if verify(state, k):
            return state.rounds[0]


@njit(cache=True, nogil=True)
def draft_heads(state: DraftState, block: int, heads: PackedHeads, chain: PackedChain) -> int:
    """Draft like `blockwise.HeadsDrafter`: heads on the state that predicted the last token."""
    D = state.verifier.packed.positions.shape[1]
    states = np.empty(max(block, 1) * D, state.hidden.dtype)
    while True:
        now = state.rounds[0]
        draft = _next_draft(state, block if now else 0)  # before the first call there is no state
        k = len(draft)
        if k:
            last = (state.accepted[now - 1] - 1) * D
            head_states(state.hidden[last:last + D].reshape(1, D), heads, states[:k * D].reshape(k, D),
                        state.verifier.team)
            _draft_chained(state, states[:k * D], chain, draft)
        if verify(state, k):
            return 0


@njit(cache=True, nogil=True)
def _draft_chained(state: DraftState, states: Floats, chain: PackedChain, draft: Ints) -> None:
    """Draft the best token of every state (k D,), one after the other, from the last accepted token on."""
    k, count = len(draft), state.length[0]
    choose_chained(states.reshape(1, k, len(states) // k), state.words[0, count - 1:count], chain, draft.reshape(1, k),
                   state.verifier.team)


@njit(cache=True, nogil=True)
def copy(state: DraftState, block: int, source: Ints, shortest: int, longest: int) -> int:
    """Draft like `iad.InputCopy`; see `drafts.copy_source`."""
    while True:
        prefix = state.words[0, :state.length[0]]
        if verify(state, drafts.copy_source(prefix, source, shortest, longest, _next_draft(state, block))):
            return 0


@njit(cache=True, nogil=True)
def propose_words(state: DraftState, block: int, words: Ints) -> int:
    """Draft like `counts_gad.WordsInPlace`; see `drafts.words_in_place`."""
    while True:
        if verify(state, drafts.words_in_place(words, state.length[0] - 1, _next_draft(state, block))):
            return 0


@njit(cache=True, nogil=True)
def continue_paths(state: DraftState, block: int, words: Ints, following: Ints, entries: Ints) -> int:
    """Draft like `lattice_gad.LatticeDrafter`; see `continuation.read_on`."""
    while True:
        count, draft = state.length[0], _next_draft(state, block)
        if verify(state, read_on(words, following, entries, count - 2, state.words[0, count - 1], draft)):
            return 1


@njit(cache=True, nogil=True)
def iterate(state: DraftState, width: int, block: int, hybrid: bool, expected: int, start: Ints) -> int:
    """Draft like `jacobi.LastIterate`, at most `width` tokens; see `drafts.last_iterate`."""
    accepted, predicted = 0, state.predicted[0, :0]
    while True:
        draft, now = _next_draft(state, width), state.rounds[0]
        drafted = drafts.last_iterate(state.length[0] - 1, block, hybrid, expected, start, predicted, accepted, draft)
        if verify(state, drafted):
            return 0
        accepted, predicted = state.accepted[now], state.predicted[now, :drafted + 1]
