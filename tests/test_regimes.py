"""The table of regimes: random weights beside trained systems, and the picture of both."""

import json
from pathlib import Path

import pytest

from benchmarks.regimes import trained_drafts
from docs import gpu, growth, regimes, reports

SPEEDS = {"ar greedy": 1.0, "interleaved greedy": 1.5, "ar iad": 0.75, "correction iad_whole": 2.0}
TOKENS = {"ar iad": 1.25, "correction iad_whole": 12.0}
DRAFTS = {"ar iad": "reports/decoders.json", "correction iad_whole": "reports/gec_base/decoders.json"}
"""The reports that these tokens per call are of; that of correctors shares the column of its width."""


@pytest.fixture()
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report of two widths, in which 32 sentences at once double every speed, and a trained run of width 512."""
    report = json.loads(Path(__file__).parents[1].joinpath("benchmarks/results/rows.json").read_text())
    results = [{"width": width, "precision": precision, "sentences": size, "rows": [
        {"search": name, "over_greedy": [speed * (1 + (size > 1)), 0.0, 9.0],
         "tokens_per_call": TOKENS.get(name), "tokens_per_call_of": DRAFTS.get(name)}
        for name, speed in SPEEDS.items()]}
        for width in (128, 512) for precision in regimes.PRECISIONS for size in regimes.SENTENCES]
    (tmp_path / regimes.REPORT).parent.mkdir(parents=True)
    (tmp_path / regimes.REPORT).write_text(json.dumps(
        {"machine": report["machine"], "made": report["made"], "results": results,
         "trained": {"reports/decoders.json": 128, "reports/base/decoders.json": 512}}))
    (tmp_path / "reports/base").mkdir(parents=True)
    (tmp_path / "reports/base/decoders.json").write_text(json.dumps([
        {"family": family, "decoder": decoder, "speedup_vs_greedy": speed, "ms_per_sentence_batch32": together}
        for family, decoder, speed, together in (
            ("ar", "greedy", 1.0, 9.0), ("ar", "greedy_int8", 4.0, 5.0), ("interleaved", "greedy", 1.75, 5.0),
            ("interleaved", "greedy_int8", 6.0, 2.0))]))
    (tmp_path / "reports/gec_base").mkdir()
    (tmp_path / "reports/gec_base/decoders.json").write_text(json.dumps([
        {"family": "ar", "decoder": decoder, "speedup_vs_greedy": speed, "ms_per_sentence_batch32": together}
        for decoder, speed, together in (("greedy", 1.0, 3.0), ("iad_whole", 2.5, 10.0))]))
    monkeypatch.setattr(reports, "ROOT", tmp_path)
    return tmp_path


def test_each_precision_is_compared_with_its_own_greedy_search(measured: Path) -> None:
    rows = {cells[1].strip(" `"): [cell.strip() for cell in cells[2:-1]]
            for cells in (line.split("|") for line in regimes.regimes().splitlines() if line.startswith("|"))}
    assert rows["search"] == ["tokens per call", "float32, d=128", "float32, d=512", "float32, d=512, trained",
                              "int8, d=128", "int8, d=512", "int8, d=512, trained"]
    assert rows["interleaved greedy"] == ["", "1.50 / 3.00", "1.50 / 3.00", "1.75 / 1.80",
                                          "1.50 / 3.00", "1.50 / 3.00", "1.50 / 2.50"]
    assert rows["correction iad_whole"] == ["12.00 (gec_base)", "2.00 / 4.00", "2.00 / 4.00", "2.50 / 0.30",
                                            "2.00 / 4.00", "2.00 / 4.00", ""]
    assert rows["ar iad"] == ["1.25 (default)", "0.75 / 1.50", "0.75 / 1.50", "", "0.75 / 1.50", "0.75 / 1.50", ""]
    assert "ar greedy" not in rows


def test_the_picture_is_the_same_for_the_same_figures(measured: Path) -> None:
    assert regimes.draw() == regimes.draw()
    assert regimes.draw().startswith(b"\x89PNG")


def test_without_a_report_nothing_is_claimed(measured: Path) -> None:
    (measured / regimes.REPORT).unlink()
    assert regimes.regimes() == gpu.gpu() == growth.scale() == "Not measured yet." and not gpu.are_there()


def test_the_picture_of_a_gpu_is_the_same_for_the_same_figures() -> None:
    assert gpu.draw() == gpu.draw()
    assert gpu.draw().startswith(b"\x89PNG")


def test_a_gain_is_the_quotient_of_speeds_over_greedy_search() -> None:
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in gpu.gpu().splitlines() if "`" in line]
    report = reports.read(gpu.REPORTS["searches"])
    [block] = [block for block in report["results"] if (block["width"], block["sentences"]) == (512, 1)]
    over = {row["search"]: row["over_greedy"][0] for row in block["rows"]}
    found = {tuple(row[1:3]): row[4] for row in rows if len(row) == 5 and row[2] in over}
    assert len(found) == len(gpu.GAINS)
    for (search, reference), cell in found.items():
        assert float(cell) == pytest.approx(over[search] / over[reference], abs=0.005)


def test_trained_drafts_are_those_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the benchmark is run."""
    here = trained_drafts(128)
    monkeypatch.chdir(tmp_path)
    assert trained_drafts(128) == here and "ar iad" in here
