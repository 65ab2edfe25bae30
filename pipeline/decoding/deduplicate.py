"""N-gram de-duplication of finished translations (Zhang et al. 2020, Figure 4; the paper gives no algorithm).

Words that are predicted at the same time do not see each other and are sometimes predicted twice. De-duplication does
not change the scores of the hypotheses.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.decoding.forced import Prefixes
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.vocabulary import PAD


def collapse(words: Sequence[int], longest: int, forced: int = 0) -> list[int]:
    """Remove immediate repeats of n-grams of up to `longest` words, left to right and the shortest first.

    The first `forced` words are kept as they are; what repeats their end is removed.

    >>> collapse([1, 2, 1, 2, 1], 2), collapse([7, 7, 7], 1), collapse([1, 2, 1, 2, 1], 1)
    ([1, 2, 1], [7], [1, 2, 1, 2, 1])
    >>> collapse([7, 7, 8, 8, 8], 1, forced=2)
    [7, 7, 8]
    """
    kept = list(words[:forced])
    for word in words[forced:]:
        kept.append(word)
        for n in range(1, longest + 1):
            if 2 * n > len(kept) or n > len(kept) - forced:
                break
            if kept[-n:] == kept[-2 * n:-n]:
                del kept[-n:]  # the remaining words had no repeats before
                break
    return kept


def deduplicated(found: Hypotheses, longest: int, prefixes: Prefixes = ()) -> Hypotheses:
    """The hypotheses without immediate repeats of n-grams of up to `longest` words, but with the same scores.

    Args:
        found: the hypotheses of B sentences.
        longest: words of an n-gram.
        prefixes: what they were forced to begin with, which is kept as it is; none: nothing was.
    """
    tokens, lengths = found.tokens.clone(), found.lengths.clone()
    for row, (hypotheses, words) in enumerate(zip(found.tokens.tolist(), found.lengths.tolist(), strict=True)):
        for rank, (hypothesis, length) in enumerate(zip(hypotheses, words, strict=True)):
            kept = collapse(hypothesis[:length], longest, len(prefixes[row]) if prefixes else 0)
            if len(kept) < length:
                tokens[row, rank, :len(kept)] = tokens.new_tensor(kept)
                tokens[row, rank, len(kept):] = PAD
                lengths[row, rank] = len(kept)
    return replace(found, tokens=tokens, lengths=lengths)
