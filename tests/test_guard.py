"""A guarded command and its child processes end together, whichever of them is killed."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu
from pipeline import guard
from pipeline.files import is_alive

_PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"],
                         stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="", flush=True)
child.wait()
"""


def _is_gone(process: int) -> bool:
    """Whether a process has ended; one that waits to be collected has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return not is_alive(process)


def _wait_until_gone(process: int) -> bool:
    patience = time.monotonic() + 20
    while not _is_gone(process) and time.monotonic() < patience:
        time.sleep(0.02)
    return _is_gone(process)


def test_children_of_a_killed_command_end(tmp_path: Path) -> None:
    """As when the system kills DVC for its memory while a stage runs."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT.replace("child.wait()", "os.kill(os.getpid(), 9)"))
    guarded = guard.start([sys.executable, str(script)], tmp_path, os.environ, stdout=subprocess.PIPE)
    assert guarded.stdout is not None
    child = int(guarded.stdout.readline())
    assert _wait_until_gone(child)
    assert guarded.wait(20) != 0
    guard.stop([guarded])
    guarded.stdout.close()


def test_the_command_and_its_children_end_with_the_pipe(tmp_path: Path) -> None:
    """Also a command that is interrupted while its child ignores that."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT.replace('"import os,', '"import signal; signal.signal(2, signal.SIG_IGN); import os,'))
    code = f"from pipeline import guard; guard.PATIENCE = 0.2; guard._main([{sys.executable!r}, {str(script)!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(Path(guard.__file__).parents[1])}) as guarded:
        assert guarded.stdout is not None and guarded.stdin is not None
        child = int(guarded.stdout.readline())
        guarded.stdin.close()
        assert _wait_until_gone(child)


def test_a_part_of_a_benchmark_that_is_over_its_limit_ends_with_its_children(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would otherwise go on, on a GPU that others need."""
    (tmp_path / "parent.py").write_text(_PARENT)
    start, log = guard.start, tmp_path / "slow.log"

    def started(*arguments: Any) -> "subprocess.Popen[str]":
        process = start(*arguments)
        wait = process.wait

        def late(timeout: float | None = None) -> int:
            if timeout is None:
                return wait()
            while not log.read_text():  # until the child is there, whatever that takes on this machine
                time.sleep(0.02)
            raise subprocess.TimeoutExpired("slow", timeout)

        monkeypatch.setattr(process, "wait", late)
        return process

    monkeypatch.setattr(guard, "start", started)
    monkeypatch.setattr(gpu, "PARTS", {"slow": gpu.Part(["parent"], 1, tmp_path, writes=False)})
    found = gpu.run_parts(["slow"], tmp_path, None)
    assert found["slow"]["exit"] == "over its limit of 1 s"
    assert _wait_until_gone(int(log.read_text().split()[0]))
