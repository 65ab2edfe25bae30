"""ROUGE-L of summaries (Lin 2004): F1 of the longest common subsequence of words, the mean over sentences.

Words are lower-cased runs of letters and digits, without stemming or stop words, as in the package rouge-score (which
knows ASCII only). A summary is one sequence: line breaks do not matter. Of several references the best one counts.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

_WORD = re.compile(r"[^\W_]+")


class RougeScore(NamedTuple):
    """The score of a corpus in percent."""

    rouge_l: float
    rouge_signature: str


def score_rouge(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> RougeScore:
    """Score summaries.

    Args:
        hypotheses: (N,)
        references: (R, N).

    Raises:
        ValueError: unequal numbers of sentences.
    """
    total = 0.0
    for hypothesis, *correct in zip(hypotheses, *references, strict=True):
        words = _tokenize(hypothesis)
        total += max(_f1(words, _tokenize(reference)) for reference in dict.fromkeys(correct))
    signature = f"rougeL|refs:{len(references)}|case:lc|tok:words|stem:no|average:sentences|version:1"
    return RougeScore(100 * total / len(hypotheses), signature)


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Its length, by Hyyrö's bit-parallel algorithm (2004): a row of the usual table is one integer.

    >>> longest_common_subsequence("the cat sat on the mat".split(), "the mat sat".split())
    2
    """
    places: defaultdict[str, int] = defaultdict(int)
    for place, word in enumerate(first):
        places[word] |= 1 << place
    row = (1 << len(first)) - 1  # a bit is 0 where the length of the common subsequence rises
    for word in second:
        shared = row & places[word]
        row = (row + shared) | (row - shared)
    return len(first) - (row & ((1 << len(first)) - 1)).bit_count()


def _f1(first: Sequence[str], second: Sequence[str]) -> float:
    return 2 * longest_common_subsequence(first, second) / max(1, len(first) + len(second))


def _tokenize(text: str) -> list[str]:
    return _WORD.findall(text.lower())
