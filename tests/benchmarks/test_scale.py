"""The growth curve: what is measured of a process, and how sizes that are measured one by one make one report."""

import json
import os
from pathlib import Path

import pytest

from benchmarks import scale
from benchmarks.scale import Usage, chosen, main, measure, projections
from docs import growth
from pipeline.errors import PipelineError

BUSY = """
import subprocess, sys, time
held = b"x" * 40_000_000
end = time.process_time() + 0.2
while time.process_time() < end:
    pass
if len(sys.argv) == 1:
    subprocess.run([sys.executable, "-m", "busy", "child"], check=True)
"""


def test_a_process_and_its_children_are_measured(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    usage = measure(["busy"], tmp_path, os.environ)
    assert 0.4 <= usage.processor_seconds < 5
    assert 80 <= usage.anonymous_mb <= usage.peak_mb < 200
    with pytest.raises(PipelineError, match=r"python -m nothing ended with status 1: .*No module named nothing"):
        measure(["nothing"], tmp_path, os.environ)


def test_an_unknown_stage_is_named() -> None:
    with pytest.raises(PipelineError, match="--only: 'aling' is none of corpus, bpe"):
        chosen(list(scale.commands(1, 300)), ["aling"])


def test_sizes_are_added_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {1_000_000: {**dict.fromkeys(("corpus", "bpe"), Usage(36, 18, 50, 50)), "align": Usage(60, 90, 500, 400),
                         "counts": Usage(48, 20, 90, 80), "align text": Usage(30, 45, 300, 200),
                         "fast_align": Usage(90, 180, 900, 850)},
             100_000: {"align": Usage(5, 9, 60, 50)}}
    monkeypatch.setattr(scale, "run", lambda pairs, *_: iter(found[pairs].items()))
    for pairs in found:
        main(["--pairs", str(pairs), "--output", str(tmp_path / "scale.json")])
    report = json.loads((tmp_path / "scale.json").read_text())
    assert list(report["measured"]) == list(report["stages"]["align"]) == ["100000", "1000000"]
    assert report["stages"]["counts"] == {"1000000": found[1_000_000]["counts"]._asdict()}
    assert report["projected"] == projections(report["stages"])
    assert report["projected"]["align"]["processor_seconds"] == pytest.approx(
        {"per_million_pairs": 90, "4500000": 405, "40000000": 3600, "1000000000": 90_000}, rel=0.001)
    monkeypatch.setattr(growth, "REPORT", tmp_path / "scale.json")
    page = growth.scale()
    assert "| align | 5 s, 9 s, 50 MB | 60 s, 90 s, 400 MB | 1.0 h," in page
    assert "| counts |  | 48 s, 20 s, 80 MB |  |  |" in page  # of one size there is no projection
    assert "| 100,000 |  |  |  |  |  |  |  |  |" in page
    assert "| 1,000,000 | 0.05 | 0.04 | 400 | 500 | 3.00 | 4.00 | 4.25 |  |" in page
    assert (tmp_path / "scale.png").stat().st_size > 10_000
