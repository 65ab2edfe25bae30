"""A slice of `benchmarks.fuzz`: every reader ends with its content or with one printable line."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from benchmarks import fuzz
from benchmarks.fuzz_files import write_run
from benchmarks.fuzz_readers import READERS, ROOT, Places
from benchmarks.fuzz_worker import State, Trial

EXAMPLES = 12


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    write_run(folder)
    return folder


@pytest.mark.parametrize("name", READERS)
def test_the_files_whose_lines_are_counted_are_there(name: str) -> None:
    assert [path for path in READERS[name].code if not (ROOT / path).is_file()] == []


def test_lines_that_cannot_be_counted_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "run", lambda *_: subprocess.CompletedProcess([], 1, "", "no such file"))
    with pytest.raises(RuntimeError, match="tsv, coverage: this program has failed: no such file"):
        fuzz.lines_run("tsv", tmp_path, tmp_path, 1)


def trial(name: str, read: Any, folder: Path) -> Trial:
    return Trial(name, read, State(folder / "state"), folder / "findings", "here")


@pytest.mark.parametrize("name", READERS)
def test_a_reader_ends_with_its_content_or_one_line(name: str, run: Path, tmp_path: Path) -> None:
    reader, places = READERS[name], Places(run, tmp_path)
    for content in reader.seeds(run)[:1]:
        reader.read(content, places)
    give = trial(name, lambda content: reader.read(content, places), tmp_path)

    @seed(1)
    @settings(max_examples=EXAMPLES, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @given(reader.structured(run))
    def each(content: bytes) -> None:
        give(content)

    each()
    findings = [path.read_text() for path in (tmp_path / "findings").glob("*.txt")]
    assert findings == []
    assert State(tmp_path / "state").inputs >= EXAMPLES // 2


def test_what_is_a_finding(tmp_path: Path) -> None:
    class PipelineError(Exception):
        pass

    def read(content: bytes) -> None:
        raise {b"b": PipelineError("a: b"), b"c": PipelineError("a\nb"), b"d": PipelineError("")}.get(
            content, KeyError(content))

    give = trial("one", read, tmp_path)
    for content in (b"b", b"c", b"d", b"e", b"f"):
        give(content)
    found = sorted(path.read_bytes() for path in (tmp_path / "findings").glob("*.bin"))
    assert found == [b"c", b"e"]  # one per kind and place
    state = State(tmp_path / "state")
    assert (state.inputs, state.accepted, state.refused, state.content) == (5, 0, 1, b"f")
