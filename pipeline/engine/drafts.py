"""What is proposed for one row where no network drafts, compiled: the rules that both loops of draft and verify call.

A rule writes its proposal into the beginning of `draft`, whose length is the room for it, and returns the number of
proposed tokens. The rule for lattices is `continuation.read_on`.
"""


from pipeline.compiled import njit
from pipeline.engine.assign import assign
from pipeline.engine.reading import Ints
from pipeline.vocabulary import PAD


@njit(cache=True, nogil=True)
def room_for(block: int, longest: int, count: int) -> int:
    """The number of tokens that may be proposed.

    Args:
        block: the most tokens of a draft.
        longest: the most tokens that the verifier reads, the start symbol not counted.
        count: accepted tokens, the start symbol counted.
    """
    return max(0, min(block, longest + 1 - count))


@njit(cache=True, nogil=True)
def copy_source(prefix: Ints, source: Ints, shortest: int, longest: int, draft: Ints) -> int:
    """Propose what follows the one place of the source at which the longest suffix of the prefix ends.

    Args:
        prefix: (n,), the start symbol and the accepted tokens.
        source: (S,), a start symbol and the tokens of the source.
        shortest: fewest tokens of the suffix; the start symbol alone always suffices.
        longest: most tokens of the suffix.
        draft: see above.
    """
    n, most, place, unique = len(prefix), 0, -1, False
    for at in range(len(source)):
        common = 0
        while common < min(longest, n, at + 1) and source[at - common] == prefix[n - 1 - common]:
            common += 1
        if common > most:
            most, place, unique = common, at, True
        elif common == most:
            unique = False
    if not unique or (most < shortest and n > 1):
        return 0
    count = min(len(draft), len(source) - 1 - place)
    assign(source[place + 1:place + 1 + count], draft)
    return count


@njit(cache=True, nogil=True)
def words_in_place(words: Ints, settled: int, draft: Ints) -> int:
    """Propose the words (N,) that are expected at the next positions, after `settled` accepted tokens."""
    count = max(0, min(len(draft), len(words) - settled))
    assign(words[settled:settled + count], draft)
    return count


@njit(cache=True, nogil=True)
def last_iterate(settled: int, block: int, hybrid: bool, expected: int, start: Ints, predicted: Ints, accepted: int,
                 draft: Ints) -> int:
    """Propose the verifier's last iterate of the rest of a block, except its last word: the call itself predicts that.

    Args:
        settled: accepted tokens.
        block: words per block; 0: the whole expected translation.
        hybrid: whether blocks end where the translation is expected to.
        expected: words of the expected translation, its end symbol included.
        start: (N,), the first iterate; PAD follows it.
        predicted: (n + 1,), the verifier's last predictions, for a draft of n tokens; empty before the first call.
        accepted: how many of these predictions were accepted.
        draft: see above.
    """
    end = expected
    if block:
        end = settled if hybrid and settled >= expected else (settled // block + 1) * block
    count = max(0, min(len(draft), end - settled - 1))
    for i in range(count):
        if accepted + i < len(predicted):
            draft[i] = predicted[accepted + i]
        else:
            draft[i] = start[settled + i] if settled + i < len(start) else PAD
    return count
