"""BLEU and time against candidates and layers, on invented measurements."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.lattice.candidates import candidates, sweep
from pipeline.evaluation.analyses.lattice.layers import Depth, layers
from pipeline.evaluation.analyses.measured import Measured, Measurements, read_measurements
from pipeline.evaluation.speed import Timings, speed_report
from pipeline.files import read_json, write_json

DECODERS: dict[str, dict[str, Any]] = {
    "beam5": {"algorithm": "beam", "beams": 5}, "counts": {"algorithm": "counts"},
    "lattice8": {"algorithm": "lattice", "candidates": 8}, "default": {"algorithm": "lattice"},
    "nat": {"algorithm": "mask_predict", "iterations": 1}}


def measured(bleu: float, speedup: float) -> Measured:
    return Measured(bleu, 60 / speedup, speedup, (speedup - 0.5, speedup + 0.5))


def run(sentences: str = "long") -> Measurements:
    return Measurements(sentences, {
        ("ar", "beam5"): measured(30, 1), ("nat", "nat"): measured(12, 4), ("raw", "lattice8"): measured(18, 8.5),
        ("lattice", "default"): measured(26, 3), ("lattice", "counts"): measured(4, 50),
        ("lattice", "lattice8"): measured(21, 9)})


def test_a_ladder_rises_with_the_candidates_of_each_entry() -> None:
    steps = sweep("lattice", run(), DECODERS)
    assert [(k, name) for k, name, _ in steps] == [(1, "counts"), (8, "lattice8"), (64, "default")]
    assert sweep("ar", run(), DECODERS) == sweep("nat", run(), DECODERS) == []


def test_candidates_have_a_line_a_family() -> None:
    finding = candidates(run(), {"lattice": "both", "raw": "raw", "untimed": "raw"}, DECODERS, measured(30, 1))
    assert finding.metric == {
        "sentences": "long", "baseline": measured(30, 1).metric(),
        "lattice": {"counts": {"candidates": 1, **measured(4, 50).metric()},
                    "lattice8": {"candidates": 8, **measured(21, 9).metric()},
                    "default": {"candidates": 64, **measured(26, 3).metric()}},
        "raw": {"lattice8": {"candidates": 8, **measured(18, 8.5).metric()}}}


def test_lattices_that_were_timed_under_no_lattice_search() -> None:
    finding = candidates(run(), {"nat": "raw"}, DECODERS, measured(30, 1))
    assert finding.metric.keys() == {"not_measured"}


def test_layers_are_sorted_and_what_is_missing_is_left_out() -> None:
    groups = {"lattice": [Depth("lattice", "lattice8", 3), Depth("raw", "lattice8", 1),
                          Depth("untrained", "lattice8", 2), Depth("lattice", "lattice9", 4)],
              "nat": [Depth("nat", "nat", 6)]}
    finding = layers(run("all"), groups)
    assert finding.metric == {
        "sentences": "all", "lattice": {"raw": {"decoder": "lattice8", "layers": 1, **measured(18, 8.5).metric()},
                                        "lattice": {"decoder": "lattice8", "layers": 3, **measured(21, 9).metric()}},
        "nat": {"nat": {"decoder": "nat", "layers": 6, **measured(12, 4).metric()}}}
    assert list(finding.metric["lattice"]) == ["raw", "lattice"]


@pytest.mark.parametrize("groups", [
    {"lattice": [], "nat": [Depth("absent", "nat", 1)]},
    {"lattice": [Depth("lattice", "lattice8", 3), Depth("raw", "lattice8", 3)], "nat": [Depth("nat", "nat", 6)]}])
def test_one_depth_alone_says_nothing(groups: dict[str, list[Depth]]) -> None:
    finding = layers(run(), groups)
    assert "fewer than two depths" in finding.metric["not_measured"]


def written(folder: Path, long: bool) -> None:
    names = (("ar", "greedy"), ("ar", "beam5"), ("swift", "counts"))
    seconds = np.array([[[0.02, 0.04]], [[0.04, 0.12]], [[0.01, 0.02]]])
    words = np.ones((3, 2))
    timings = {size: Timings(names, seconds, words, words, seconds.shape[2]) for size in (1, 32)}
    report = speed_report(timings, np.array([True, True]), np.array([False, long]), long_rule="the second",
                          baseline="ar", counterparts={}, machine={}, made={"date": "2026-01-02", "commit": "abc"})
    write_json(folder / "speed.json", report)
    for family, scores in {"ar": {"greedy": 20.0, "beam5": 22.0}, "swift": {"counts": 3.0}}.items():
        write_json(folder / "quality" / f"{family}.json",
                   {"decoders": {name: {"bleu": bleu} for name, bleu in scores.items()}})


def test_times_are_those_of_the_long_sentences(tmp_path: Path) -> None:
    written(tmp_path, long=True)
    found = read_measurements(tmp_path / "quality", tmp_path / "speed.json")
    assert found.sentences == "long"
    swift = found.decoders["swift", "counts"]
    assert (swift.bleu, swift.milliseconds, swift.speedup, *swift.interval) == pytest.approx((3, 20, 6, 6, 6))


def test_without_long_sentences_they_are_those_of_all(tmp_path: Path) -> None:
    written(tmp_path, long=False)
    found = read_measurements(tmp_path / "quality", tmp_path / "speed.json")
    assert found.sentences == "all"
    swift = found.decoders["swift", "counts"]
    assert (swift.milliseconds, swift.speedup) == (pytest.approx(15), pytest.approx(16 / 3))
    assert swift.interval[0] < swift.speedup < swift.interval[1]


def test_a_timed_decoder_must_be_scored(tmp_path: Path) -> None:
    written(tmp_path, long=True)
    report = read_json(tmp_path / "quality/swift.json")
    report["decoders"].pop("counts")
    write_json(tmp_path / "quality/swift.json", report)
    with pytest.raises(PipelineError, match=r"swift\.json: decoder 'counts' of family 'swift' was timed but not"):
        read_measurements(tmp_path / "quality", tmp_path / "speed.json")
    (tmp_path / "quality/swift.json").unlink()
    with pytest.raises(PipelineError, match=r"swift\.json: not found"):
        read_measurements(tmp_path / "quality", tmp_path / "speed.json")
