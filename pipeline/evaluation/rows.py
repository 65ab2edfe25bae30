"""One row per decoder: its quality, its speed and its significance side by side (`reports/decoders.json`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import PipelineError
from pipeline.evaluation.bootstrap import Floats
from pipeline.evaluation.quality import HypothesisLine, Quality, read_hypotheses
from pipeline.evaluation.resampled_bleu import Scores, p_value
from pipeline.files import read_json
from pipeline.measures import MEASURES

Name = tuple[str, str]
"""(family, decoder)."""


@dataclass(frozen=True)
class System:
    """A trained family, or the peers, under one decoder."""

    family: str
    decoder: str
    data: str
    """What the family was trained on: raw, distilled or both."""

    @property
    def name(self) -> Name:
        return self.family, self.decoder


@dataclass(frozen=True, kw_only=True)
class Row(Quality, System):
    """The quality and the cost of one decoder. The fields of `System` come first, then those of `Quality`.

    Speeds are ratios of total times, sentence by sentence (batch 1), over the long sentences unless the name ends in
    `_all` or `_batch32`; an interval is [low, high] at 95 %. Where no sentence is long, the fields of the long ones are
    None.
    """

    p_value_vs_ar: float | None
    """Paired bootstrap on BLEU, two-sided, against the baseline family under the same decoder or, where it has no such
    row or this one is quantised, under the exact decoder with as many beams; None if there is none."""
    ms_per_sentence: float
    ms_per_sentence_long: float | None
    ms_per_sentence_batch32: float
    """Of the sentences that were timed 32 at once, as all that `batch32` names."""
    speedup_vs_beam5: float | None
    speedup_vs_beam5_interval: list[float] | None
    speedup_vs_greedy: float | None
    speedup_vs_greedy_interval: list[float] | None
    speedup_vs_beam5_all: float
    speedup_vs_beam5_all_interval: list[float]
    speedup_vs_greedy_all: float
    speedup_vs_greedy_all_interval: list[float]
    speedup_vs_beam5_batch32: float
    speedup_vs_beam5_batch32_interval: list[float]
    speedup_vs_greedy_batch32: float
    speedup_vs_greedy_batch32_interval: list[float]
    ratio_vs_ar_same_decoder: float | None
    """Speed relative to the baseline family under the decoder of `p_value_vs_ar`; None where there is none."""
    ratio_vs_ar_same_decoder_interval: list[float] | None
    tokens_per_second: float
    tokens_per_second_batch32: float
    calls: float | None
    """Mean decoder calls per sentence of the test set; None where another library does not count them."""
    calls_long: float | None
    """Mean decoder calls per long sentence that was timed; None as for `calls`."""
    accepted_per_call: float | None
    """Tokens, the end symbol included, accepted per call of the verifier; None where nothing is drafted."""
    drafter_calls: float | None
    """Mean calls of the drafter per sentence; None where nothing is drafted."""
    identical_to_greedy: float | None
    """Share of sentences with the text of the greedy search of the same family, or of a drafter's verifier, in the same
    number of bits; None where there is no such search."""
    ties: int | None
    """Sentences with another text only because of a certified numerical tie; None where the decoder does not promise
    the text of greedy search."""

    @property
    def quality(self) -> float:
        """The score that decoders are compared by: that of the task, BLEU of translations."""
        return self._judged[1]

    @property
    def quality_name(self) -> str:
        return self._judged[0]

    @property
    def _judged(self) -> tuple[str, float]:
        scores = {"F0.5": self.f05, "SARI": self.sari, "ROUGE-L": self.rouge_l}
        return next(((name, score) for name, score in scores.items() if score is not None), ("BLEU", self.bleu))

    @property
    def speed(self) -> float:
        """Speed relative to the baseline's beam search: over the long sentences, or over all if none is long."""
        return self.speedup_vs_beam5_all if self.speedup_vs_beam5 is None else self.speedup_vs_beam5


_SCORES = (*(field.name for field in fields(Quality) if field.default is MISSING), "calls")
"""The scores that every quality file has."""
_OPTIONAL_SCORES = (*(field.name for field in fields(Quality) if field.default is None), "accepted_per_call",
                    "drafter_calls", "ties")
"""The scores that exist for some tasks and decoders only."""
_QUALITY_HEADER = ("family", "data", "decoders")
_SPEED_HEADER = ("sentences", "long_sentences", "sentences_batch32", "long_rule", "repetitions", "baseline", "machine",
                 "made", "contestants")
_NUMBERS = ("ms_per_sentence", "ms_per_sentence_long", "ms_per_sentence_batch32", "tokens_per_second",
            "tokens_per_second_batch32", "calls_long")
_RATIOS = tuple(f"speedup_vs_{reference}{which}" for which in ("", "_all", "_batch32")
                for reference in ("beam5", "greedy"))


def read_lines(evaluation: Path, names: Sequence[Name], sentences: int) -> dict[Name, list[HypothesisLine]]:
    """Read what decoders have written of every sentence, (N,) each.

    Raises:
        PipelineError: a file is absent, damaged or of another test set.
    """
    return {(family, decoder): read_hypotheses(evaluation / family / f"{decoder}.jsonl", sentences)
            for family, decoder in names}


def texts_of(lines: Mapping[Name, Sequence[HypothesisLine]]) -> dict[Name, list[str]]:
    """The hypotheses of decoders, (N,) each."""
    return {name: [line.hypothesis for line in found] for name, found in lines.items()}


def counts_of(lines: Mapping[Name, Sequence[HypothesisLine]]) -> dict[Name, Floats]:
    """Tokens of every sentence, its end symbol included, and its calls, (N, 2), of the decoders that count calls."""
    return {name: np.array([(line.tokens + line.ended, line.calls) for line in found], np.float64)
            for name, found in lines.items() if all(line.calls is not None for line in found)}


def read_speed(path: Path) -> dict[str, Any]:
    """Read the report of `speed_report`, and check that it has every number that a row needs.

    Raises:
        PipelineError: the file or a number is absent.
    """
    report: dict[str, Any] = read_json(path)
    _take(_SPEED_HEADER, report, path, "the header")
    for entry in report["contestants"]:
        whose = f"decoder {entry.get('decoder')!r} of family {entry.get('family')!r}"
        _take(("family", "decoder", "seconds_long", "tokens_long", *_NUMBERS, *_RATIOS), entry, path, whose)
    return report


def timed_decoders(speed: Mapping[str, Any]) -> list[Name]:
    """The decoders of a speed report, in its order."""
    return [(entry["family"], entry["decoder"]) for entry in speed["contestants"]]


def assemble_rows(quality: Path, speed: Mapping[str, Any], texts: Mapping[Name, Sequence[str]],
                  bleu: Mapping[Name, Scores],
                  greedy_of: Callable[[str], str | None] = lambda _: "greedy") -> list[Row]:
    """Join the quality files and the speed report, in the order of the latter.

    Args:
        quality: folder of `<family>.json`.
        speed: from `read_speed`.
        texts: hypotheses (N,) of every decoder in `speed`.
        bleu: their BLEU on the same resamples.
        greedy_of: the greedy search that a decoder's texts are compared with, or None, see `Params.greedy_of`.

    Raises:
        PipelineError: a decoder was scored but not timed or the reverse, or families were scored differently.
    """
    scores, judges = _read_scores(quality, {family for family, _ in timed_decoders(speed)})
    for family, decoder in sorted(scores.keys() ^ set(timed_decoders(speed))):
        fault = "scored but not timed" if (family, decoder) in scores else "timed but not scored"
        raise PipelineError(f"{quality / family}.json: decoder {decoder!r} of family {family!r} was {fault}; "
                            "run `dvc repro`")
    return [Row(family=name[0], decoder=name[1], **scores[name], **_speed_columns(entry),
                p_value_vs_ar=(p_value(bleu[name], bleu[speed["baseline"], entry["counterpart"]])
                               if "counterpart" in entry else None),
                identical_to_greedy=_share_identical(texts[name], texts.get(
                    (judges[name[0]], greedy_of(name[1]) or ""))))  # no decoder has an empty name
            for name, entry in zip(timed_decoders(speed), speed["contestants"], strict=True)]


def pareto(rows: Sequence[Row]) -> set[Name]:
    """The decoders worth choosing between: no other is at least as fast and as good, and better in one of the two."""
    points = [(row.speed, row.quality) for row in rows]
    return {row.name for row, mine in zip(rows, points, strict=True) if not any(
        their[0] >= mine[0] and their[1] >= mine[1] and their != mine for their in points)}


def _read_scores(folder: Path, families: set[str]) -> tuple[dict[Name, dict[str, Any]], dict[str, str]]:
    """The quality columns of each decoder, and for each family the one whose greedy search it is compared with.

    The folder may also hold files of families that are no longer among the systems.
    """
    scores: dict[Name, dict[str, Any]] = {}
    greedy: dict[str, str] = {}
    signatures: dict[str, dict[str | None, Path]] = {one.signature: {} for one in MEASURES}
    for path in sorted(folder / f"{family}.json" for family in families):
        report = read_json(path)
        _take(_QUALITY_HEADER, report, path, "the header")
        greedy[report["family"]] = report.get("verifier") or report["family"]
        for decoder, values in report["decoders"].items():
            taken = _take(_SCORES, values, path, f"decoder {decoder!r}")
            taken |= {key: values.get(key) for key in _OPTIONAL_SCORES}
            scores[report["family"], decoder] = {"data": report["data"], **taken}
            for key, paths in signatures.items():
                paths[taken[key]] = path
    for measure in MEASURES:
        if len(paths := signatures[measure.signature]) > 1:
            listed = " and ".join(f"{path} ({signature or 'none'})" for signature, path in paths.items())
            raise PipelineError(f"{listed}: {measure.title} with different signatures cannot be compared; "
                                "run the evaluation of every family again")
    return scores, greedy


def _take(keys: Sequence[str], values: Mapping[str, Any], path: Path, whose: str) -> dict[str, Any]:
    if missing := [key for key in keys if key not in values]:
        raise PipelineError(f"{path}: no {missing[0]!r} for {whose}; run the stage that wrote it again")
    return {key: values[key] for key in keys}


def _speed_columns(entry: Mapping[str, Any]) -> dict[str, Any]:
    columns = {key: entry[key] for key in _NUMBERS}
    for key in (*_RATIOS, "ratio_vs_ar_same_decoder"):
        ratio = entry.get(key)  # [ratio, low, high]
        columns[key] = ratio and ratio[0]
        columns[f"{key}_interval"] = ratio and ratio[1:]
    return columns


def _share_identical(texts: Sequence[str], greedy: Sequence[str] | None) -> float | None:
    if greedy is None:
        return None
    return sum(mine == theirs for mine, theirs in zip(texts, greedy, strict=True)) / len(greedy)
