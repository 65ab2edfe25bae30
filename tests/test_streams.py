"""Standard output that nobody reads, or that cannot be written: no success without the product."""

import io
import os
import resource
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest

import pipeline
from pipeline import cli
from pipeline.cli import PRINTING, main
from pipeline.commands import COMMANDS
from pipeline.errors import PipelineError

FULL = Path("/dev/full")
needs_a_full_disk = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")


@pytest.fixture
def nobody_reads() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def stands_in(monkeypatch: pytest.MonkeyPatch, verb: str, work: Callable[[], None], model: str | None = None) -> None:
    """Give a verb other work."""
    monkeypatch.setattr(cli, "_parse", lambda given: (verb, Namespace(model=model), work))


def prints_and_writes() -> None:
    """What a stage does: tell, work, write, tell."""
    for _ in range(3000):
        print("a message")
    sys.stdout.flush()
    Path("product").write_text("made")
    print("written")


@pytest.mark.parametrize("verb", COMMANDS)
def test_without_a_reader_files_are_written_and_printing_ends(verb: str, nobody_reads: int, tmp_path: Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stands_in(monkeypatch, verb, prints_and_writes)
    with open(nobody_reads, "w", closefd=False) as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        status = main([verb])
    assert (status, Path("product").exists()) == ((141, False) if verb in PRINTING else (0, True))


def test_a_disk_that_fills_within_a_write_is_no_success(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    """Of output without a buffer, the system takes what there is room for, without an error."""
    def write() -> None:
        sys.stdout.buffer.write(b"a whole document\n")

    stands_in(monkeypatch, "translate", write)
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open(tmp_path / "out", "wb", buffering=0) as raw:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "utf-8", write_through=True))
        resource.setrlimit(resource.RLIMIT_FSIZE, (5, allowed[1]))
        try:
            status = main(["translate"])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert status == 2 and (tmp_path / "out").read_bytes() == b"a who"
    assert capsys.readouterr().err.startswith("error: standard output: cannot be written: File too large; free some")


def test_what_looks_at_a_model_prints(nobody_reads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stands_in(monkeypatch, "speed", lambda: print("a table"), model="hf:somebody/model")
    with open(nobody_reads, "w", closefd=False) as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert main(["speed"]) == 141  # found by the last flush


def test_a_service_goes_on_if_nobody_reads_its_address(nobody_reads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stands_in(monkeypatch, "serve", lambda: print("http://127.0.0.1:8000", flush=True), model="folder")
    with open(nobody_reads, "w", closefd=False) as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert main(["serve"]) == 0


@needs_a_full_disk
@pytest.mark.parametrize("verb", COMMANDS)
@pytest.mark.parametrize("lines", [1, 3000], ids=["in the last flush", "before"])
def test_a_full_disk_is_one_line(verb: str, lines: int, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    stands_in(monkeypatch, verb, lambda: print("a line\n" * lines))
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main([verb]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: standard output: cannot be written: No space left") and told.count("\n") == 1


def test_messages_that_nobody_reads_stop_nothing(nobody_reads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def work() -> None:
        print("a warning", file=sys.stderr)
        done.append("all of it")

    stands_in(monkeypatch, "translate", work)
    with open(nobody_reads, "w", closefd=False) as unread:
        monkeypatch.setattr(sys, "stderr", unread)
        assert main(["translate"]) == 0
    assert done == ["all of it"]


def test_a_message_that_the_encoding_lacks_stops_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stands_in(monkeypatch, "export", lambda: print("out/\udce9\u2713"))
    with open(tmp_path / "out", "w", encoding="ascii") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["export"]) == 0
    assert (tmp_path / "out").read_text() == "out/\\udce9\\u2713\n"


def test_messages_to_a_closed_standard_error_go_nowhere(monkeypatch: pytest.MonkeyPatch,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        print("a warning", file=sys.stderr)
        assert not sys.stderr.isatty()
        raise PipelineError("\udce9")

    stands_in(monkeypatch, "translate", work)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["translate"]) == 2 and sys.stderr is None
    assert capsys.readouterr().out == ""


def test_a_pipe_that_breaks_elsewhere_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def talk_to_a_dead_process() -> None:
        raise BrokenPipeError

    stands_in(monkeypatch, "peers", talk_to_a_dead_process)
    with pytest.raises(BrokenPipeError):
        main(["peers"])


def test_the_streams_come_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def work() -> None:
        print("so", "much", flush=True)
        sys.stdout.buffer.write(b"bytes\n")

    stands_in(monkeypatch, "orders", work)
    with open(tmp_path / "out", "w", encoding="latin-1", errors="replace") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["orders"]) == 0 and sys.stdout is out
        out.write("and after\n")
    assert (tmp_path / "out").read_text() == "so much\nbytes\nand after\n"


def in_a_process(*arguments: str, stdout: int | TextIO) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(pipeline.__file__).parents[1])}
    return subprocess.run([sys.executable, "-m", "pipeline", *arguments], env=environment, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, check=False)


def test_the_interpreter_has_nothing_to_add(nobody_reads: int) -> None:
    done = in_a_process("--help", stdout=nobody_reads)
    assert (done.returncode, done.stderr) == (141, "")
    if FULL.exists():
        with FULL.open("w") as full:
            done = in_a_process("--version", stdout=full)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stderr.startswith("error: standard outp")


def test_a_closed_output_is_refused() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(pipeline.__file__).parents[1])}
    done = subprocess.run(f"'{sys.executable}' -m pipeline --version >&-", shell=True, env=environment, check=False,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: standard output: is closed; ")
