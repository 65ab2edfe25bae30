"""A process a core: batched search gains more from it than from the threads of one process.

Lightning would start the other processes of a run when its own is ready, and wait while they load the same libraries
again. Here they fork when everything is loaded and nothing has been computed. Lightning can fork as well (`ddp_fork`),
but only in `Trainer.test`, when the model has been made: where threads of torch have computed anything by then, its
processes wait for these threads without end. And it hands on an error of theirs as a traceback, not as one line.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

import torch

from pipeline.errors import PipelineError

BATCHES = 5
"""A process with fewer batches is not worth its start."""
_ELSEWHERE = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "SLURM_NTASKS")
"""Set by whoever has started the processes of this run already."""


def useful_processes(batches: int) -> int:
    """How many processes to share batches among: 1 where there is an accelerator, or nothing can be forked safely."""
    if sys.platform != "linux" or torch.accelerator.is_available() or any(name in os.environ for name in _ELSEWHERE):
        return 1
    return max(1, min(torch.get_num_threads(), batches // BATCHES))


def run_together(task: Callable[[], None], processes: int) -> None:
    """Run a task in several processes, which Lightning takes for the devices of one machine.

    Must be called before torch has computed anything with several threads, which a fork would lose.

    Args:
        task: sets up a trainer with as many devices; returns nothing.
        processes: how many; 1 runs the task right here.

    Raises:
        PipelineError: one of them raised it, or died. The others are stopped: they would wait for it.
    """
    if processes == 1:
        return task()
    forks = multiprocessing.get_context("fork")
    threads, port = max(1, torch.get_num_threads() // processes), str(_free_port())
    running: dict[int, tuple[ForkProcess, Connection]] = {}  # by sentinel
    sys.stdout.flush()  # or what is still in the buffer would come out once a process
    try:
        for rank in range(processes):
            receiver, sender = forks.Pipe(duplex=False)
            process = forks.Process(target=_take_part, args=(task, sender, rank, threads, port))
            process.start()
            sender.close()  # the end of a process is then the end of its pipe
            running[process.sentinel] = process, receiver
        while running:
            ended = [running.pop(sentinel) for sentinel in wait(list(running))]  # type: ignore[arg-type]
            for process, _ in ended:
                process.join()
            if any(process.exitcode for process, _ in ended):
                raise PipelineError(_reason(ended))
    finally:
        for process, _ in running.values():
            process.kill()
            process.join()


def _reason(ended: list[tuple[ForkProcess, Connection]]) -> str:
    """The error that one of the processes sent; where none did, how one of them ended."""
    for _, receiver in ended:
        with suppress(EOFError):
            return str(receiver.recv())
    code = next(process.exitcode for process, _ in ended if process.exitcode)
    return (f"a process of this run died (exit code {code}); see above, or look for lack of memory; "
            "--trainer.devices 1 runs it in one process")


def _take_part(task: Callable[[], None], sender: Connection, rank: int, threads: int, port: str) -> None:
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                   "OMP_NUM_THREADS": str(threads)}
    torch.set_num_threads(threads)
    try:
        task()
    except PipelineError as error:
        sender.send(str(error))
        sys.exit(2)
    except KeyboardInterrupt:  # the first process has it too, and speaks
        sys.exit(130)


def _end_with_the_run() -> None:
    """Nobody must write for a run that was killed: its lock is gone, and the next run may have begun."""
    run = multiprocessing.parent_process()
    assert run is not None
    run.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
