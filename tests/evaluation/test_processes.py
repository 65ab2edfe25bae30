"""Processes that share a run, and a test of a family that they share."""

import json
import multiprocessing
import os
import select
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pipeline import layout
from pipeline.cli import main
from pipeline.errors import PipelineError
from pipeline.evaluation import test as evaluation
from pipeline.evaluation.processes import BATCHES, run_together, useful_processes

QUALITY, HYPOTHESES = Path("reports/quality/teacher.json"), Path("data/hypotheses/teacher")


def rank() -> int:
    return int(os.environ["LOCAL_RANK"])


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("eight_cores")
def test_one_process_per_core_as_far_as_there_are_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [useful_processes(BATCHES * n) for n in (0, 1, 3, 8, 100)] == [1, 1, 3, 8, 8]
    assert useful_processes(2 * BATCHES - 1) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert useful_processes(100) == 2


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize("name", ["LOCAL_RANK", "RANK", "WORLD_SIZE", "SLURM_NTASKS"])
def test_processes_that_others_have_started_are_enough(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    assert useful_processes(100) == 1


@pytest.mark.usefixtures("eight_cores")
def test_no_forks_beside_an_accelerator_or_where_they_are_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert useful_processes(100) == 1
    monkeypatch.setattr("sys.platform", "linux")
    assert useful_processes(100) == 8
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert useful_processes(100) == 1


def test_one_process_is_this_one() -> None:
    ran: list[int] = []
    run_together(lambda: ran.append(os.getpid()), 1)
    assert ran == [os.getpid()]


def test_every_process_knows_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)  # shared among three
    before = dict(os.environ)

    def task() -> None:
        places = {name: os.environ[name] for name in ("LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT",
                                                      "OMP_NUM_THREADS")}
        (tmp_path / str(rank())).write_text(json.dumps({**places, "process": os.getpid()}))

    run_together(task, 3)
    found = [json.loads((tmp_path / name).read_text()) for name in "012"]
    assert [one["LOCAL_RANK"] for one in found] == ["0", "1", "2"]
    assert {one["OMP_NUM_THREADS"] for one in found} == {"2"}
    assert len({one["MASTER_PORT"] for one in found}) == 1
    assert len({os.getpid(), *(one["process"] for one in found)}) == 4
    assert dict(os.environ) == before


def test_an_error_is_told_in_its_words_and_nobody_is_waited_for(tmp_path: Path) -> None:
    def task() -> None:
        if rank() == 1:
            raise PipelineError("notes.txt:3: 'x' is no number; write one")
        time.sleep(60)  # as at a gathering that never comes
        (tmp_path / "waited").touch()

    with pytest.raises(PipelineError, match=r"^notes\.txt:3: 'x' is no number; write one$"):
        run_together(task, 2)
    assert not (tmp_path / "waited").exists()


def test_an_exit_code_that_comes_after_the_sentinel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system closes the sentinel of a process that ends before its exit code can be read."""
    asked, joined = set[int](), set[int]()

    def join(process: Any, timeout: float | None = None) -> None:
        joined.add(process.pid)
        BaseProcess.join(process, timeout)

    def exitcode(process: Any) -> int | None:
        if process.pid in asked | joined:
            return BaseProcess.exitcode.fget(process)  # type: ignore[attr-defined, no-any-return]
        asked.update({process.pid} if wait([process.sentinel], 0) else ())
        return None

    def task() -> None:
        raise PipelineError(f"process {rank()} has failed; look at it")

    monkeypatch.setattr(ForkProcess, "join", join)
    monkeypatch.setattr(ForkProcess, "exitcode", property(exitcode))
    with pytest.raises(PipelineError, match="has failed"):
        run_together(task, 2)


def test_a_process_that_is_killed_is_missed() -> None:
    def task() -> None:
        if rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    with pytest.raises(PipelineError, match=r"died \(exit code -9\).*--trainer\.devices 1") as missed:
        run_together(task, 2)
    assert "\n" not in str(missed.value)


def test_nobody_goes_on_for_a_run_that_was_killed() -> None:
    reader, writer = os.pipe()

    def task() -> None:
        os.write(writer, b"-")
        signal.pause()

    run = multiprocessing.get_context("fork").Process(target=run_together, args=(task, 2))
    run.start()
    os.close(writer)  # the remaining copies of it are in the processes of the run
    with open(reader, "rb", buffering=0) as pipe:
        assert pipe.read(1) + pipe.read(1) == b"--"
        run.kill()
        run.join()
        assert select.select([pipe], [], [], 30)[0] and pipe.read() == b""  # both have ended


def test_a_fault_of_the_program_keeps_its_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    def task() -> None:
        raise ZeroDivisionError("seventeen by nothing")

    with pytest.raises(PipelineError, match="exit code 1"):
        run_together(task, 2)
    assert "ZeroDivisionError: seventeen by nothing" in capfd.readouterr().err


def written() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in [QUALITY, *HYPOTHESES.iterdir()]}


def shared_among(processes: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let `test` run in a number of processes; returns the numbers of batches that it asks for."""
    asked: list[int] = []

    def useful(batches: int) -> int:
        asked.append(batches)
        return processes

    monkeypatch.setattr(evaluation, "useful_processes", useful)
    return asked


def test_processes_that_share_a_family_write_what_one_writes(
        workspace: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch) -> None:
    change_params({"evaluation": {"batch_tokens": 160}})
    asked = shared_among(1, monkeypatch)
    assert main(["test", "--family", "teacher"]) == 0
    by_one = written()
    QUALITY.unlink()
    shared_among(3, monkeypatch)  # one more than there are decoders to score
    assert main(["test", "--family", "teacher"]) == 0
    assert written() == by_one
    assert asked == [4]  # of 5, 6, 6 and 7 sentences
    assert not (layout.WORK / "test-teacher").exists()


def test_the_figures_are_those_of_a_plain_call_of_sacrebleu(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared_among(1, monkeypatch)
    assert main(["test", "--family", "teacher"]) == 0
    references = [(layout.CORPUS / "test.target").read_text("utf-8").split("\n")[:-1]]
    for decoder, figures in json.loads(QUALITY.read_text())["decoders"].items():
        lines = [json.loads(line) for line in (HYPOTHESES / f"{decoder}.jsonl").read_text("utf-8").splitlines()]
        texts = [line["hypothesis"] for line in lines]
        for name, metric in {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}.items():
            assert figures[name] == metric.corpus_score(texts, references).score
            assert figures[f"{name}_signature"] == str(metric.get_signature())


def test_an_error_in_a_shared_test_is_one_line(workspace: Path, change_params: Callable[[dict[str, Any]], None],
                                               monkeypatch: pytest.MonkeyPatch,
                                               capfd: pytest.CaptureFixture[str]) -> None:
    change_params({"evaluation": {"batch_tokens": 160}, "decoders": {"beam3": {"algorithm": "beam", "beams": 4000}}})
    shared_among(2, monkeypatch)
    assert main(["test", "--family", "teacher"]) == 2
    told = capfd.readouterr().err
    assert told.count("error: ") == 1 and "beam: 4000 must be smaller than the vocabulary" in told
    assert "Traceback" not in told
    assert not QUALITY.exists()
