"""Draft and verify for one sentence, compiled whole: nothing returns to Python between rounds.

One loop for each way to draft, around the same `verify`. They do what `verify.verify` does with the drafters of the
same names, which the tests hold them to.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.compiled import njit
from pipeline.engine.continuation import read_on
from pipeline.engine.decoder import read
from pipeline.engine.greedy import run_ahead
from pipeline.engine.heads import head_states
from pipeline.engine.reading import Bools, Floats, PackedHeads, PackedLinks, Reading
from pipeline.engine.screen import best_words, count_above, logit_of
from pipeline.engine.token_chain import follow_links
from pipeline.engine.verdict import accept
from pipeline.vocabulary import MASK, PAD

Ints = npt.NDArray[np.int64]


class Line(NamedTuple):
    """The translation of one sentence on its way, and the record of its rounds, of k drafted tokens at most.

    Places of rounds that have not been are void.
    """

    verifier: Reading
    longest: int
    """Tokens that the verifier reads at most, the start symbol not counted."""
    end: int
    """The end symbol."""
    beta: int
    """See `prefix.Acceptance`; …"""
    tau: float
    """… so too."""
    words: Ints
    """(1, T): the start symbol, the accepted tokens, and anything behind them."""
    length: Ints
    """(1,), how many these are."""
    left: Ints
    """(1,), tokens that may still be accepted."""
    rounds: Ints
    """(1,), how many there have been."""
    drafts: Ints
    """(rounds, k)."""
    drafted: Ints
    """(rounds,), how many of them are a draft."""
    said: Ints
    """(rounds, k + 1), what the verifier said in their place and behind them."""
    accepted: Ints
    """(rounds,), how many of these were accepted."""
    ends: Bools
    """(1,), whether the end symbol has been accepted."""
    hidden: Floats
    """((k + 1) D,), the verifier's states of the last round, one behind the other."""
    logits: Floats
    """(k + 1, V), what they say …"""
    bounds: Floats
    """… and what it is below, (k + 1, panels); see `screen.best_words`."""
    tokens: Ints
    """(k + 1,), what it read."""


@njit(cache=True, nogil=True)
def verify(line: Line, drafted: int) -> bool:
    """Let the verifier judge the first few tokens of this round's draft, and accept what stands.

    Returns:
        Whether the translation has come to its end.

    Raises:
        IndexError: the draft holds what is no token, or there are more than places.
    """
    now, n, packed = line.rounds[0], drafted + 1, line.verifier.packed
    draft, said, D = line.drafts[now:now + 1, :drafted], line.said[now:now + 1, :n], packed.positions.shape[1]
    tokens = line.tokens[:n].reshape(1, n)
    tokens[0, 0] = line.words[0, line.length[0] - 1]
    tokens[0, 1:] = draft[0]
    hidden = line.hidden[:n * D].reshape(1, n, D)
    if not read(tokens, line.length - 1, line.verifier, hidden):
        raise IndexError("the drafter proposed what the verifier does not know, or more than it has places for")
    best_words(hidden[0], packed, line.logits[:n], line.bounds[:n], said[0])
    if line.beta > 1 and line.tau > 0:
        for i in range(drafted):
            word, best = draft[0, i], said[0, i]
            if word not in (best, PAD) and _stands(line, hidden[0], i, word, best):
                said[0, i] = word
    _, _, over = accept(said, draft, line.end, line.left, line.words, line.length, line.accepted[now:now + 1],
                        line.ends)
    line.drafted[now] = drafted
    line.rounds[0] += 1
    return over


@njit(cache=True, nogil=True)
def _stands(line: Line, hidden: Floats, i: int, word: int, best: int) -> bool:
    """Whether a drafted word is accepted in place of the best one behind state i; see `prefix.Acceptance`."""
    packed = line.verifier.packed
    logit = logit_of(hidden, i, packed, line.logits, word)
    return (line.logits[i, best] - logit <= line.tau
            and count_above(hidden, i, packed, line.logits, line.bounds, logit, line.beta) < line.beta)


@njit(cache=True, nogil=True)
def speculate(line: Line, drafter: Reading, block: int) -> None:
    """`speculative.SmallModel`: the drafter's own continuation."""
    known = 0
    while True:
        count = line.length[0]
        k = min(block, line.longest + 1 - count)
        if k > 0:
            known = min(known, count - 1)  # what it said itself and was accepted it need not read again
            run_ahead(line.words[0, known:count], line.drafts[line.rounds[0], :k], known, drafter)
            known = count + k - 1
        if verify(line, max(k, 0)):
            return


@njit(cache=True, nogil=True)
def draft_blocks(line: Line, drafter: Reading, links: PackedLinks, block: int) -> None:
    """`gad.NetworkDrafter`: the states of the prefix's last token and of k - 1 masks behind it, linked."""
    known, D, number = 0, drafter.packed.positions.shape[1], drafter.packed.vectors.dtype
    tokens, hidden = np.empty(2 * block, np.int64), np.empty(2 * block * D, number)
    length = np.empty(1, np.int64)
    while True:
        now, count = line.rounds[0], line.length[0]
        k = min(block, line.longest + 1 - count)
        if k > 0:
            new = count - known
            n = new + k - 1
            tokens[:new] = line.words[0, known:count]
            tokens[new:n] = MASK
            states = hidden[:n * D].reshape(1, n, D)
            length[0] = known
            read(tokens[:n].reshape(1, n), length, drafter, states)
            follow_links(hidden[(new - 1) * D:n * D].reshape(1, k, D), line.words[0, count - 1:count], links,
                         line.drafts[now:now + 1, :k])
            known = count
        if verify(line, max(k, 0)):
            return


@njit(cache=True, nogil=True)
def draft_heads(line: Line, heads: PackedHeads, links: PackedLinks, block: int) -> None:
    """`blockwise.HeadsDrafter`: heads on the state that predicted the last token."""
    D = line.verifier.packed.positions.shape[1]
    states = np.empty(max(block, 1) * D, line.hidden.dtype)
    while True:
        now, count = line.rounds[0], line.length[0]
        k = min(block, line.longest + 1 - count) if now else 0  # before the first call there is no state
        if k > 0:
            last = (line.accepted[now - 1] - 1) * D
            head_states(line.hidden[last:last + D].reshape(1, D), heads, states[:k * D].reshape(k, D))
            follow_links(states[:k * D].reshape(1, k, D), line.words[0, count - 1:count], links,
                         line.drafts[now:now + 1, :k])
        if verify(line, max(k, 0)):
            return


@njit(cache=True, nogil=True)
def copy(line: Line, source: Ints, shortest: int, longest: int, block: int) -> None:
    """`iad.InputCopy`: what stands in the source (S,) behind what was said last; it begins with the start symbol."""
    places = len(source) - (source == PAD).sum()
    while True:
        count, k = line.length[0], 0
        place = _where(line.words[0, :count], source[:places], shortest, longest)
        if place >= 0:
            k = max(0, min(block, places - 1 - place, line.longest + 1 - count))
            line.drafts[line.rounds[0], :k] = source[place + 1:place + 1 + k]
        if verify(line, k):
            return


@njit(cache=True, nogil=True)
def _where(said: Ints, source: Ints, shortest: int, longest: int) -> int:
    """The only place in the source at which as many of the last words end as nowhere else; -1: there is none."""
    most, place, alone, n = 0, -1, False, len(said)
    for at in range(len(source)):
        common = 0
        while common < min(longest, n, at + 1) and source[at - common] == said[n - 1 - common]:
            common += 1
        if common > most:
            most, place, alone = common, at, True
        elif common == most:
            alone = False
    return place if alone and (most >= shortest or n == 1) else -1


@njit(cache=True, nogil=True)
def foresee(line: Line, words: Ints, block: int) -> None:
    """`counts_gad.WordsInPlace`: the words that are foreseen for the next positions, of all (N,)."""
    while True:
        settled = line.length[0] - 1
        k = max(0, min(block, line.longest - settled, len(words) - settled))
        line.drafts[line.rounds[0], :k] = words[settled:settled + k]
        if verify(line, k):
            return


@njit(cache=True, nogil=True)
def continue_paths(line: Line, words: Ints, following: Ints, entries: Ints, block: int) -> None:
    """`lattice_gad.LatticeDrafter`: the best continuation in a lattice; for its arrays see `continuation.read_on`."""
    while True:
        count = line.length[0]
        draft = line.drafts[line.rounds[0], :max(0, min(block, line.longest + 1 - count))]
        if verify(line, read_on(words, following, entries, count - 2, line.words[0, count - 1], draft)):
            return


@njit(cache=True, nogil=True)
def iterate(line: Line, block: int, hybrid: bool, expected: int, start: Ints) -> None:
    """`jacobi.LastIterate`: the verifier's last iterate of the rest of a block; `start` (N,) is the first one."""
    before = 0
    while True:
        now, settled = line.rounds[0], line.length[0] - 1
        ends = expected
        if block and not (hybrid and settled >= expected):
            ends = (settled // block + 1) * block
        elif block:
            ends = settled
        # The last word of a block is what the verifier says behind the last word of the draft.
        k = max(0, min(ends - settled - 1, line.longest - settled))
        for i in range(k):
            line.drafts[now, i] = start[settled + i] if settled + i < len(start) else PAD
            if now and line.accepted[now - 1] + i <= before:
                line.drafts[now, i] = line.said[now - 1, line.accepted[now - 1] + i]
        before = k
        if verify(line, k):
            return
