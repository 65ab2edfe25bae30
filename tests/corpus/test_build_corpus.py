"""From files to clean text: exact content, exact counts, same bytes twice, nothing half-written."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.checksums import SUMS
from pipeline.cli import main
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.build import build_corpus
from pipeline.sources.settings import CorpusSettings, FilterSettings, NoiseSettings


def append(settings: CorpusSettings, split: str, source: str, target: str) -> None:
    for path, line in zip(getattr(settings.block, split), (source, target), strict=True):
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != SUMS}


def test_text_and_counts_are_exact(tmp_path: Path, toy_settings: CorpusSettings) -> None:
    append(toy_settings, "train", "shared   by two\u2028splits", "in zwei Teilen")
    append(toy_settings, "train", "gone", "weg")
    append(toy_settings, "test", "shared by two splits", "anders übersetzt")
    build_corpus(toy_settings, tmp_path / "out" / "corpus", tmp_path / "reports" / "corpus.json")
    assert set(content(tmp_path / "out" / "corpus")) == {
        f"{split}.{side}" for split in ("train", "validation", "test") for side in ("source", "target")}
    train = (tmp_path / "out" / "corpus" / "train.source").read_bytes().decode()
    assert train.count("\n") == 401 and train.endswith("\nshared by two splits\n")
    counts = json.loads((tmp_path / "reports" / "corpus.json").read_text(encoding="utf-8"))
    assert counts["train"] == {
        "read": 402, "empty": 0, "too_short": 1, "too_long": 0, "length_ratio": 0,
        "identical": 0, "duplicate": 0, "kept": 401}
    assert counts["validation"]["kept"] == counts["test"]["kept"] == 30
    assert counts["test"]["overlap"] == 1


def test_noise_adds_two_files_and_changes_no_other(tmp_path: Path, toy_settings: CorpusSettings) -> None:
    with open(tmp_path / "train.de", encoding="utf-8") as file:
        append(toy_settings, "train", "another way to say it", file.readline().strip())
    plain = replace(toy_settings, source_language="de")
    build_corpus(plain, tmp_path / "plain", tmp_path / "plain.json")
    build_corpus(replace(plain, noise=NoiseSettings(copies=3)), tmp_path / "noisy", tmp_path / "noisy.json")
    files = content(tmp_path / "noisy")
    source, target = (files.pop(f"synthetic.{side}").decode().splitlines() for side in ("source", "target"))
    assert files == content(tmp_path / "plain")
    distinct = dict.fromkeys((tmp_path / "plain" / "train.target").read_text(encoding="utf-8").splitlines())
    assert target == [sentence for sentence in distinct for _ in range(3)]
    report = json.loads((tmp_path / "noisy.json").read_text(encoding="utf-8"))
    assert report.pop("synthetic") == {"sentences": 400, "pairs": 1200,
                                       "identical": sum(map(str.__eq__, source, target))}
    assert report == json.loads((tmp_path / "plain.json").read_text(encoding="utf-8"))
    build_corpus(replace(plain, noise=NoiseSettings(copies=3)), tmp_path / "again", tmp_path / "again.json")
    assert content(tmp_path / "again") == content(tmp_path / "noisy")


def test_two_builds_give_the_same_bytes(tmp_path: Path, toy_settings: CorpusSettings) -> None:
    for name in ("one", "two"):
        build_corpus(toy_settings, tmp_path / name, tmp_path / f"{name}.json")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_a_failure_leaves_the_last_corpus_whole(tmp_path: Path, toy_settings: CorpusSettings) -> None:
    out, report = tmp_path / "out" / "corpus", tmp_path / "out" / "corpus.json"
    build_corpus(toy_settings, out, report)
    before = content(out), report.read_bytes()
    with open(toy_settings.block.test[1], "ab") as file:
        file.write(b"one line too many\n")
    with pytest.raises(PipelineError, match=r"test\.en has 30 lines but .*test\.de has 31"):
        build_corpus(toy_settings, out, report)
    assert (content(out), report.read_bytes()) == before
    assert sorted(path.name for path in out.parent.iterdir()) == ["corpus", "corpus.json"]


def test_filtering_everything_writes_nothing(tmp_path: Path, toy_settings: CorpusSettings) -> None:
    strict = replace(toy_settings, filters=FilterSettings(min_words=40))
    with pytest.raises(PipelineError, match="'too_short' dropped 400"):
        build_corpus(strict, tmp_path / "out" / "corpus", tmp_path / "out" / "corpus.json")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(("dropped", "told"), [
    (30, ""), (31, "test: 30 of 61 pairs kept; the filter 'too_short' dropped 31 (corpus.filters in params.yaml)\n")])
def test_a_filter_that_drops_more_than_half_is_told(workspace: Path, capsys: pytest.CaptureFixture[str],
                                                    change_params: Callable[[dict[str, Any]], None],
                                                    write_toy_files: Callable[[Path], CorpusSettings], dropped: int,
                                                    told: str) -> None:
    settings = write_toy_files(workspace)
    for number in range(dropped):
        append(settings, "test", f"Unzertrennbar{number}", f"indivisible {number}")
    change_params({"corpus": {"files": {split: getattr(settings.block, split) for split in SPLITS}}})
    assert main(["corpus"]) == 0
    assert capsys.readouterr().out == told


def test_the_stages_start_without_heavy_imports() -> None:
    program = ("import sys, pipeline.sources.build, pipeline.train_bpe; "
               "print({'torch', 'pytorch_lightning', 'polib', 'lxml', 'datasets'} & set(sys.modules))")
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "set()"
