"""N-gram de-duplication of finished translations (Zhang et al. 2020, Figure 4; the paper gives no algorithm).

Words that are predicted at the same time do not see each other and are sometimes predicted twice. De-duplication does
not change the scores of the hypotheses.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.vocabulary import PAD


def collapse(words: Sequence[int], longest: int) -> list[int]:
    """Remove immediate repeats of n-grams of up to `longest` words, left to right and the shortest first.

    >>> collapse([1, 2, 1, 2, 1], 2), collapse([7, 7, 7], 1), collapse([1, 2, 1, 2, 1], 1)
    ([1, 2, 1], [7], [1, 2, 1, 2, 1])
    """
    kept: list[int] = []
    for word in words:
        kept.append(word)
        for n in range(1, longest + 1):
            if 2 * n > len(kept):
                break
            if kept[-n:] == kept[-2 * n:-n]:
                del kept[-n:]  # the remaining words had no repeats before
                break
    return kept


def deduplicated(found: Hypotheses, longest: int) -> Hypotheses:
    """The hypotheses without immediate repeats of n-grams of up to `longest` words, but with the same scores."""
    tokens, lengths = found.tokens.clone(), found.lengths.clone()
    for row, (hypotheses, words) in enumerate(zip(found.tokens.tolist(), found.lengths.tolist(), strict=True)):
        for rank, (hypothesis, length) in enumerate(zip(hypotheses, words, strict=True)):
            kept = collapse(hypothesis[:length], longest)
            if len(kept) < length:
                tokens[row, rank, :len(kept)] = tokens.new_tensor(kept)
                tokens[row, rank, len(kept):] = PAD
                lengths[row, rank] = len(kept)
    return replace(found, tokens=tokens, lengths=lengths)
