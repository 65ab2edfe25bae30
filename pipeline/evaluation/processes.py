"""One process per core: batched search gains more from processes than from the threads of one process.

Lightning would start the other processes of a run when its own is ready, and wait while they import the same libraries
again. Here they fork when everything is imported and nothing has been computed. Lightning can fork as well
(`ddp_fork`), but only in `Trainer.test`, after the model has been made: if threads of torch have computed anything by
then, its processes wait for these threads forever. It also reports their errors as tracebacks, not as one line.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from multiprocessing.queues import SimpleQueue

import torch

from pipeline.errors import PipelineError

BATCHES = 5
"""A process with fewer batches is not worth starting."""
_SET_ELSEWHERE = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "SLURM_NTASKS")
"""Environment variables that are set where others have already started the processes of this run."""


def useful_processes(batches: int) -> int:
    """How many processes should share the batches: 1 where there is an accelerator or forking is not safe."""
    if sys.platform != "linux" or torch.accelerator.is_available() or not os.environ.keys().isdisjoint(_SET_ELSEWHERE):
        return 1
    return max(1, min(torch.get_num_threads(), batches // BATCHES))


def run_together(task: Callable[[], None], processes: int) -> None:
    """Run a task in several processes, which Lightning takes for the devices of one machine.

    Must be called before torch has computed anything with several threads, which a fork would lose.

    Args:
        task: sets up a trainer with as many devices.
        processes: how many; 1 runs the task in this process.

    Raises:
        PipelineError: one of them raised it, or died. The others are killed, because they would wait for it.
    """
    if processes == 1:
        return task()
    forks = multiprocessing.get_context("fork")
    threads, port, errors = max(1, torch.get_num_threads() // processes), _free_port(), forks.SimpleQueue()
    running: list[ForkProcess] = []
    sys.stdout.flush()  # otherwise each process would print the contents of the buffer
    try:
        for rank in range(processes):
            process = forks.Process(target=_take_part, args=(task, errors, rank, threads, port))
            process.start()
            running.append(process)
        while running:
            ready = wait([process.sentinel for process in running])
            ended = [process for process in running if process.sentinel in ready]
            for process in ended:
                process.join()  # the system closes a sentinel before it has an exit code
            if codes := [process.exitcode for process in ended if process.exitcode]:
                died = (f"a process of this run died (exit code {codes[0]}); see above, or look for lack of memory; "
                        "--trainer.devices 1 runs it in one process")
                raise PipelineError(died if errors.empty() else errors.get())
            running = [process for process in running if process not in ended]
    finally:
        for process in running:
            process.kill()
            process.join()


def _take_part(task: Callable[[], None], errors: SimpleQueue[str], rank: int, threads: int, port: str) -> None:
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                   "OMP_NUM_THREADS": str(threads)}
    torch.set_num_threads(threads)
    try:
        task()
    except PipelineError as error:
        errors.put(str(error))
        sys.exit(2)
    except KeyboardInterrupt:  # the first process is interrupted as well, and reports it
        sys.exit(130)


def _end_with_the_run() -> None:
    """Kill this process when the run's first one ends: its lock is then gone, and the next run may have begun."""
    run = multiprocessing.parent_process()
    assert run is not None
    run.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])
