"""Findings about drafts: how many tokens a call of the verifier accepts, counted on the whole test set.

A ratio of sums over the sentences, whose 95 % interval is a paired bootstrap's.
"""

from collections.abc import Mapping

from pipeline.evaluation.bootstrap import Estimate, Floats, compare_ratios
from pipeline.evaluation.claims.judgement import Judgement, compared, in_words, missing
from pipeline.evaluation.rows import Name

_WHOLE_BLOCK = "gad5"
_PAIRS = (
    (28, "A drafter of three layers has more tokens accepted than one of a single layer",
     ("drafter_3", _WHOLE_BLOCK), ("drafter_1", _WHOLE_BLOCK)),
    (29, "A verifier of distilled data accepts more tokens of its drafter than one of raw data",
     ("drafter_distilled", _WHOLE_BLOCK), ("drafter_raw", _WHOLE_BLOCK)),
)
"""Number of the finding, claim, the decoder that should have more tokens accepted, and the other one."""


def judge_drafts(counts: Mapping[Name, Floats], times: Floats) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding.

    Args:
        counts: (N, 2) of each decoder: tokens of every sentence, its end symbol included, and calls.
        times: (samples, N), see `bootstrap.resample`.
    """
    return [(number, _compare(claim, more, less, counts, times)) for number, claim, more, less in _PAIRS]


def _compare(claim: str, more: Name, less: Name, counts: Mapping[Name, Floats], times: Floats) -> Judgement:
    absent = [" under ".join(name) for name in (more, less) if name not in counts]
    if absent:
        return missing(claim, *absent)
    found = compare_ratios(counts[more], counts[less], times)
    margin = Estimate(found.difference, found.low, found.high)
    named = {" ".join(more): round(found.mine, 4), " ".join(less): round(found.theirs, 4)}
    return compared(claim, margin, times.shape[1],
                    f"Tokens per call: {', '.join(f'{name} {value:.2f}' for name, value in named.items())}; margin "
                    f"{in_words(margin)}.", {"tokens_per_call": named})
