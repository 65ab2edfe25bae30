"""Run a command that ends when the process which started it ends, in whatever way that happens.

The command runs under a process of this file, whose standard input is a pipe. The operating system closes that pipe
when the process at its other end exits, is killed, or closes it on purpose; the command and all its child processes are
then interrupted, as by control-C, and killed if that does not end them. No signal handler could do this: `kill -9` runs
none. If the command itself is killed, its child processes are ended in the same way: nobody would wait for them.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

PATIENCE = 30.0
"""Seconds that an interrupted command has to end by itself."""


def start(command: Sequence[str], folder: Path, environment: Mapping[str, str],
          stdout: int | None = None) -> "subprocess.Popen[str]":
    """Start a guarded command in a session of its own, so that one signal reaches all its child processes.

    Args:
        command: to run.
        folder: to run it in.
        environment: all of its environment variables.
        stdout: `subprocess.PIPE` to read its output, or the descriptor of a file that takes it, standard error
            included; None: this process's own outputs.
    """
    # -P: otherwise Python would look for its own modules among the files of this folder.
    return subprocess.Popen(
        [sys.executable, "-P", __file__, *command], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=stdout,
        stderr=None if stdout is None else subprocess.STDOUT, text=True, encoding="utf-8", errors="replace",
        start_new_session=True)


def stop(processes: Sequence["subprocess.Popen[str]"]) -> None:
    """End guarded commands that have not ended yet, and wait for them."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    for process in processes:
        process.wait()


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> int:
    """Run a guarded command to its end and return its exit status."""
    process = start(command, folder, environment)
    try:
        return process.wait()
    finally:
        stop([process])


def _main(command: Sequence[str]) -> int:
    # A signal handler, even an empty one, is not inherited by the command; an ignored signal would be.
    signal.signal(signal.SIGINT, lambda *_: None)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    closed = threading.Event()
    threading.Thread(target=_interrupt_with_the_pipe, args=(process.pid, closed), daemon=True).start()
    status = process.wait()
    if status < 0 or closed.is_set():  # whatever killed the command, such as a lack of memory, spared its children
        _end(process.pid)
    return status


def _interrupt_with_the_pipe(group: int, closed: threading.Event) -> None:
    os.read(0, 1)  # returns when the pipe is closed: nothing is ever written into it
    closed.set()
    _end(group)


def _end(group: int) -> None:
    """Interrupt the processes of a group, and kill those that go on."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGINT)
        patience = time.monotonic() + PATIENCE
        while time.monotonic() < patience:
            os.killpg(group, 0)  # an error if there are none left
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
