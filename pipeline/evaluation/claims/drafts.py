"""Findings about drafts: how many tokens a call of the verifier accepts, counted on the whole test set.

A ratio of sums over the sentences, whose 95 % interval is a paired bootstrap's.
"""

from collections.abc import Mapping

import numpy as np

from pipeline.evaluation.bootstrap import Floats, interval
from pipeline.evaluation.claims.judgement import Judgement, by_interval, in_words, missing, rounded
from pipeline.evaluation.quality import BOOTSTRAP_SEED
from pipeline.evaluation.rows import Name

_WHOLE_BLOCK = "gad5"
_PAIRS = (
    (28, "A drafter of three layers has more tokens accepted than one of a single layer",
     ("drafter_3", _WHOLE_BLOCK), ("drafter_1", _WHOLE_BLOCK)),
    (29, "A verifier of distilled data accepts more tokens of its drafter than one of raw data",
     ("drafter_distilled", _WHOLE_BLOCK), ("drafter_raw", _WHOLE_BLOCK)),
)
"""Number of the finding, claim, the decoder that should have more tokens accepted, and the other one."""


def judge_drafts(counts: Mapping[Name, Floats], samples: int) -> list[tuple[int, Judgement]]:
    """The judgements by the number of their finding.

    Args:
        counts: (N, 2) of each decoder: tokens of every sentence, its end symbol included, and calls.
        samples: resamples of the bootstrap.
    """
    return [(number, _compare(claim, more, less, counts, samples)) for number, claim, more, less in _PAIRS]


def _compare(claim: str, more: Name, less: Name, counts: Mapping[Name, Floats], samples: int) -> Judgement:
    absent = [" under ".join(name) for name in (more, less) if name not in counts]
    if absent:
        return missing(claim, *absent)
    sentences = len(counts[more])
    times = np.random.default_rng(BOOTSTRAP_SEED).multinomial(
        sentences, np.full(sentences, 1 / sentences), samples).astype(np.float64)
    (mine, many), (theirs, few) = ((_accepted(counts[name].sum(0)), _accepted(times @ counts[name]))
                                   for name in (more, less))
    margin = [float(mine - theirs), *interval(many - few)]
    named = {" ".join(more): round(float(mine), 4), " ".join(less): round(float(theirs), 4)}
    return Judgement(claim, by_interval(*margin[1:]),
                     f"Tokens per call: {', '.join(f'{name} {value:.2f}' for name, value in named.items())}; margin "
                     f"{in_words(margin)}.", {"tokens_per_call": named, "margin": rounded(margin)})


def _accepted(sums: Floats) -> Floats:
    """(..., 2) sums of tokens and calls to tokens per call (...)."""
    found: Floats = sums[..., 0] / sums[..., 1]
    return found
