"""Grammatical error correction as edits: precision, recall and F0.5 over spans, against several references.

The edits of hypotheses and references are found by alignment with the source, so only text is needed, in any language
with spaces. Edits have no types. They are counted as the field's scorers count them (M2: Dahlmeier and Ng 2012; ERRANT:
Bryant et al. 2017), but the spans differ, and therefore the figures do too.

* Tokens are words, with their inner apostrophes and hyphens, and single other characters; case matters.
* The alignment is the cheapest one: keeping a token costs 0; inserting, deleting or replacing one and swapping two
  neighbours (Damerau 1964) cost 1 each. Among equally cheap ones, it keeps most tokens. Among those, read from the end,
  it deletes where it can, else inserts, else replaces, else swaps: the first of repeated words is kept.
* An edit is everything between two neighbouring kept tokens: adjacent changes are one edit.
* An edit of the hypothesis is right if the reference has the same one: span and replacement.
* Each sentence is counted with the reference that makes F0.5 of all sentences so far highest; at equal F0.5 with most
  right edits, then fewest wrong, then fewest missed. The order of the sentences therefore has a (small) influence.
* Precision is 1 where no edit is wrong, recall 1 where none is missed; F0.5 is 1 where there are no edits at all.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from pipeline.words import WORD

BETA = 0.5
"""Precision counts 1 / BETA times as much as recall: a wrong correction is worse than a missed one."""

_TOKEN = re.compile(rf"{WORD}|[^\w\s]")

_COST = 1 << 32
"""The cost of a change, in units of a kept token: no sentence has enough kept tokens to outweigh a change."""


class Edit(NamedTuple):
    """Source tokens start .. end - 1 become `words`; an insertion has start = end, a deletion has no words."""

    start: int
    end: int
    words: tuple[str, ...]


class EditScore(NamedTuple):
    """Scores of a corpus in percent."""

    precision: float
    recall: float
    f05: float
    edits_signature: str


class _Counts(NamedTuple):
    right: int
    wrong: int
    missed: int


def tokenize(text: str) -> list[str]:
    """Split text into words and single other characters.

    >>> tokenize("Об'єкт будь-який - це «річ»...")
    ["Об'єкт", 'будь-який', '-', 'це', '«', 'річ', '»', '.', '.', '.']
    """
    return _TOKEN.findall(text)


def edits_between(source: Sequence[str], target: Sequence[str]) -> list[Edit]:
    """The edits that turn the tokens (S,) of one sentence into those (T,) of another, from left to right.

    >>> edits_between("she go in school the".split(), "She goes to the school".split())
    [Edit(start=0, end=5, words=('She', 'goes', 'to', 'the', 'school'))]
    >>> edits_between("I has seen a the owl".split(), "I have seen the old owl".split())
    [Edit(start=1, end=2, words=('have',)), Edit(start=3, end=4, words=()), Edit(start=5, end=5, words=('old',))]
    """
    edits = []
    start, first = 0, 0
    for end, last in [*_kept(source, target), (len(source), len(target))]:
        if start < end or first < last:
            edits.append(Edit(start, end, tuple(target[first:last])))
        start, first = end + 1, last + 1
    return edits


def score_edits(hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> EditScore:
    """Score corrected sentences.

    Args:
        hypotheses: (N,) corrected sources.
        sources: (N,)
        references: (R, N).

    Raises:
        ValueError: unequal numbers of sentences.
    """
    def edits() -> Iterator[tuple[Set[Edit], list[Set[Edit]]]]:
        for source, hypothesis, *correct in zip(sources, hypotheses, *references, strict=True):
            words = tokenize(source)
            yield (set(edits_between(words, tokenize(hypothesis))),
                   [set(edits_between(words, tokenize(reference))) for reference in dict.fromkeys(correct)])

    signature = f"edits|refs:{len(references)}|case:mixed|tok:words|merge:adjacent|beta:{BETA}|version:2"
    return count_edits(edits(), signature)


def count_edits(edits: Iterable[tuple[Set[Edit], Sequence[Set[Edit]]]], signature: str,
                decimals: int | None = None) -> EditScore:
    """Score the edits of sentences.

    Args:
        edits: per sentence those of the hypothesis, and those of each of its references.
        signature: how they were found.
        decimals: of the F0.5, from 0 to 1, by which references are chosen; None: all.
    """
    def worth(counts: _Counts) -> tuple[float, int, int, int]:
        f05 = _rates(counts)[2]
        return f05 if decimals is None else round(f05, decimals), counts.right, -counts.wrong, -counts.missed

    total = _Counts(0, 0, 0)
    for found, references in edits:
        right, wrong, missed = total
        options = [_Counts(right + len(found & one), wrong + len(found - one), missed + len(one - found))
                   for one in references]
        total = max(options, key=worth)
    precision, recall, f05 = _rates(total)
    return EditScore(100 * precision, 100 * recall, 100 * f05, signature)


def _rates(counts: _Counts) -> tuple[float, float, float]:
    """Precision, recall and F0.5, from 0 to 1."""
    right, wrong, missed = counts
    precision = right / (right + wrong) if wrong else 1.0
    recall = right / (right + missed) if missed else 1.0
    # (1 + BETA²) P R / (BETA² P + R) in counts: all but the division is exact, so that equal figures are equal floats.
    weight = (1 + BETA**2) * right
    return precision, recall, weight / (weight + wrong + BETA**2 * missed) if any(counts) else 1.0


def _kept(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """The (source, target) positions of the tokens that the best alignment keeps, from left to right."""
    # The common beginning is kept; a corrector leaves most of a sentence as it is.
    common = next((at for at, (mine, theirs) in enumerate(zip(source, target, strict=False)) if mine != theirs),
                  min(len(source), len(target)))
    table = _alignment_table(source[common:], target[common:])
    i, j = len(source) - common, len(target) - common
    kept = []
    while i and j:
        cost = table[i][j]
        if cost == table[i - 1][j] + _COST:
            i -= 1
        elif cost == table[i][j - 1] + _COST:
            j -= 1
        elif cost == table[i - 1][j - 1] + _COST:
            i, j = i - 1, j - 1
        elif cost == table[i - 1][j - 1] - 1:
            i, j = i - 1, j - 1
            kept.append((common + i, common + j))
        else:
            i, j = i - 2, j - 2
    return [*((at, at) for at in range(common)), *reversed(kept)]


def _alignment_table(source: Sequence[str], target: Sequence[str]) -> list[list[int]]:
    """(S + 1, T + 1) costs of the best alignment of the first i with the first j tokens, less the kept tokens."""
    table = [[j * _COST for j in range(len(target) + 1)]]
    for i, mine in enumerate(source, start=1):
        above, row = table[-1], [i * _COST]
        for j, theirs in enumerate(target, start=1):
            cost = min(above[j - 1], above[j], row[j - 1]) + _COST
            if mine == theirs:
                cost = min(cost, above[j - 1] - 1)
            elif i > 1 and j > 1 and mine == target[j - 2] and theirs == source[i - 2]:
                cost = min(cost, table[i - 2][j - 2] + _COST)
            row.append(cost)
        table.append(row)
    return table
