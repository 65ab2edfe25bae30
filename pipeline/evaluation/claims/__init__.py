"""The papers' findings, tested on this run: `reports/claims.json`.

A finding has parts, each judged by a file of this package from texts, times, counts or analyses: false if one of them
is false, true if all are true. The intervals describe what another test set would change; they do not contain what
another seed of the training would change. A finding about speed holds for the model and the device that were measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.evaluation.bootstrap import Floats
from pipeline.evaluation.claims.analysed import judge_analyses
from pipeline.evaluation.claims.drafts import judge_drafts
from pipeline.evaluation.claims.exact import judge_exact
from pipeline.evaluation.claims.findings import FINDINGS
from pipeline.evaluation.claims.judgement import Judgement, all_of
from pipeline.evaluation.claims.quality import judge_quality, unlearnt
from pipeline.evaluation.claims.speed import judge_speed
from pipeline.evaluation.resampled_bleu import Scores
from pipeline.evaluation.rows import Name, Row


def judge(rows: Sequence[Row], bleu: Mapping[Name, Scores], counts: Mapping[Name, Floats], times: Floats,
          speed: Mapping[str, Any], analyses: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An entry per finding, whether this run measures it or not.

    Args:
        rows: of the systems that were evaluated.
        bleu: their BLEU on the same resamples of the test set.
        counts: their tokens and calls per sentence (N, 2), of those that count calls.
        times: (samples, N), how often each resample contains each sentence.
        speed: from `speed.speed_report`.
        analyses: the figures of every analysis.
    """
    baseline, sentences = speed["baseline"], times.shape[1]
    judgements = [
        *judge_quality(bleu, sentences, (baseline, "greedy")), *judge_speed(speed), *judge_exact(rows, sentences),
        *judge_drafts(counts, times), *judge_analyses(analyses, baseline, unlearnt(bleu, (baseline, "greedy")))]
    parts: dict[int, list[Judgement]] = {number: [] for number in FINDINGS}
    for number, judgement in judgements:
        parts[number].append(judgement)
    return [{"finding": number, **finding._asdict(), "verdict": all_of([one.verdict for one in parts[number]]),
             "parts": [asdict(one) for one in parts[number]]} for number, finding in FINDINGS.items()]
