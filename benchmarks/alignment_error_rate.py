"""How far word alignments are from a hand-made one: Och and Ney (2003), "A Systematic Comparison of Various
Statistical Alignment Models", section 5.2.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pipeline.errors import PipelineError

Link = tuple[int, int]
"""Positions of a source and a target word, from 0."""
LinkSets = Sequence[AbstractSet[Link]]
"""The links of each sentence pair."""


class ErrorRate(NamedTuple):
    """Shares, from 0 to 1."""

    aer: float
    """Alignment error rate, 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 is perfect."""
    precision: float
    """|A ∩ P| / |A|, the found links that are possible; 0 if nothing was found."""
    recall: float
    """|A ∩ S| / |S|, the sure links that were found."""


def error_rate(sure: LinkSets, possible: LinkSets, found: LinkSets) -> ErrorRate:
    """Rate the links A found in a corpus against its sure links S and possible links P.

    Args:
        sure: (N,) links that every annotator made.
        possible: (N,) links that some made; those that are sure are possible too, here or not.
        found: (N,) links to rate.

    Raises:
        PipelineError: another number of sentence pairs, or no sure link in all of them (no recall then).

    >>> error_rate([{(0, 0), (1, 1)}], [{(1, 2)}], [{(0, 0), (1, 2), (2, 2)}])
    ErrorRate(aer=0.4, precision=0.6666666666666666, recall=0.5)
    """
    if not len(sure) == len(possible) == len(found):
        raise PipelineError(f"alignment error rate: {len(sure)} sentence pairs with sure links, {len(possible)} with "
                            f"possible ones, {len(found)} to rate; give one set of links a pair")
    sure_links, found_links = sum(map(len, sure)), sum(map(len, found))
    if not sure_links:
        raise PipelineError("alignment error rate: the gold alignment has no sure link; nothing can be rated")
    found_sure = sum(len(a & s) for a, s in zip(found, sure, strict=True))
    found_possible = sum(len(a & (s | p)) for a, s, p in zip(found, sure, possible, strict=True))
    return ErrorRate(aer=1 - (found_sure + found_possible) / (found_links + sure_links),
                     precision=found_possible / found_links if found_links else 0.0,
                     recall=found_sure / sure_links)
