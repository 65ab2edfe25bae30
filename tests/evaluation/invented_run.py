"""An invented small run that is ready for its report: what the tests of the report share."""

from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.evaluation.quality import HypothesisLine, score, write_hypotheses
from pipeline.evaluation.report import build_report
from pipeline.evaluation.speed import Timings, speed_report
from pipeline.files import read_json, write_json
from pipeline.params import EvaluationSettings, load_params

ROOT = Path(__file__).parents[2]
SENTENCES = 16
SCRIPT = "<script>alert('x')</script>"
MILLISECONDS = {("ar", "greedy"): 20, ("ar", "beam5"): 40, ("swift", "greedy"): 10, ("swift", "beam5"): 16}
LONG = np.arange(SENTENCES) >= SENTENCES // 2


def references() -> list[str]:
    return ["die Lampe " + "im Flur und auf dem Dach " * (1 + index % 4) + f"bleibt an bis {index}"
            for index in range(SENTENCES)]


def translations(family: str, decoder: str) -> list[str]:
    """`ar` errs in every fourth sentence, `swift` in all; beam5 mends one sentence of each."""
    texts = references()
    for index in range(0, SENTENCES, 4 if family == "ar" else 1):
        texts[index] = texts[index].replace("Lampe", "Tür").replace("Flur", "Bad")
    if decoder == "beam5":
        texts[0] = references()[0]
    if family == "swift":
        texts[5] = texts[9] = SCRIPT  # neighbours in length, so that one of them is a sample
    return texts


@dataclass(frozen=True)
class Run:
    """The folders of a finished run."""

    root: Path

    def build(self) -> None:
        params = replace(load_params(ROOT / "params.yaml"), evaluation=EvaluationSettings(bootstrap_samples=100))
        with chdir(self.root):
            build_report(params)

    def change(self, file: str, edit: Callable[[Any], None]) -> None:
        content = read_json(self.root / file)
        edit(content)
        write_json(self.root / file, content)

    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        rows = read_json(self.root / "reports" / "decoders.json")
        return {(row["family"], row["decoder"]): row for row in rows}


def speeds(long: np.ndarray) -> dict[str, Any]:
    # Long sentences take twice the time; the machine line has an ampersand to be escaped.
    pace = np.where(LONG, 2.0, 1.0)
    seconds = np.array([[milliseconds * pace / 1000] for milliseconds in MILLISECONDS.values()])
    words = np.tile(10 * pace, (len(MILLISECONDS), 1))
    batched = seconds.sum(2, keepdims=True) / 5, words.sum(1, keepdims=True), words[:, :1]
    timings = {1: Timings(tuple(MILLISECONDS), seconds, words, words, len(long)),
               32: Timings(tuple(MILLISECONDS), *batched, len(long))}
    decoders = {decoder: decoder for family, decoder in MILLISECONDS if family == "ar"}
    return speed_report(timings, np.ones_like(long), long, long_rule="the second half", baseline="ar",
                        counterparts=decoders, machine={"device": "R&D <1>"},
                        made={"date": "2026-01-02", "commit": "abc"})


def measured(root: Path, further: Sequence[Sequence[str]] = (), metrics: Sequence[str] = ()) -> Run:
    """A run in `root`, scored against `references()` and further ones, and by further metrics."""
    streams = {"test.target": references(),
               **{f"test.target{number}": lines for number, lines in enumerate(further, start=2)}}
    corpus = root / "data/corpus"
    corpus.mkdir(parents=True)
    for name, lines in streams.items():
        (corpus / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    sources = [f"the lamp number {index} " + "and the roof " * (index % 4) for index in range(SENTENCES)]
    (corpus / "test.source").write_text("\n".join(sources) + "\n", encoding="utf-8")
    quality: dict[str, dict[str, Any]] = {}
    for family, decoder in MILLISECONDS:
        texts = translations(family, decoder)
        lines = [HypothesisLine(index, text, 9, 5, True) for index, text in enumerate(texts)]
        write_hypotheses(root / "data/hypotheses" / family / f"{decoder}.jsonl", lines, range(SENTENCES))
        scores = score(texts, [*streams.values()], sources=sources, metrics=metrics)
        quality.setdefault(family, {})[decoder] = {**asdict(scores), "calls": 5.0}
    for family, decoders in quality.items():
        write_json(root / "reports/quality" / f"{family}.json",
                   {"family": family, "data": "distilled", "decoders": decoders})
    write_json(root / "reports/speed.json", speeds(LONG))
    write_json(root / "reports/analyses.json", {})
    return Run(root)
