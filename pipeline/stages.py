"""Trains and evaluates independent families at the same time.

Two trainings with one core each take more steps per second than one with two cores, and one process can work while
another imports its libraries, but `dvc repro` runs one stage after the other. So each stage of a single family gets its
own `dvc repro --single-item` as soon as its inputs are complete. DVC supports this: it holds the project's lock while
it reads and writes dvc.lock, hashes, caches and restores, releases it while the stage's command runs, and marks what
that command reads and writes meanwhile. By default it waits for the lock for three seconds only; with
`--wait-for-lock` it waits until the lock is free.

Each training has the threads of its own parameters, so its bits do not depend on what else runs. All stages reproduced
here are up to date in the plain `dvc repro` that follows, which could have done everything by itself.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from pipeline import guard
from pipeline.cores import usable_cores
from pipeline.dvc_index import PIPELINE, Stage, read_stages
from pipeline.errors import PipelineError
from pipeline.files import is_alive
from pipeline.params import PARAMS, Params, load_params
from pipeline.schedule import After, choose, length
from pipeline.stage_graph import find_stages

DVC = (sys.executable, "-m", "dvc")
REPRO = (*DVC, "--wait-for-lock", "repro")
"""Other families and other profiles may be running."""
_MOST = 8
"""The default maximum of stages at once: each process takes about a gigabyte of memory."""
Output = SimpleQueue[tuple[str, str | None]]
"""The lines of the running stages, each with its stage; None after a stage's last line."""


def default_jobs(params: Params) -> int:
    """How many stages to run at once: one per GPU, or without a GPU as many as have cores for their threads."""
    import torch

    if torch.accelerator.is_available():
        return max(1, torch.cuda.device_count())
    threads = max((params.family(name).training.threads for name in params.starts), default=1)
    return max(1, min(_MOST, usable_cores() // threads))


def environment() -> dict[str, str]:
    """DVC's environment, in which the stages' `python` is this process's interpreter."""
    return {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}


def reproduce_families(folder: Path, stages: Mapping[str, Stage], jobs: int) -> None:
    """Reproduce the stages of single families that are not up to date, and first those that they depend on.

    At most `jobs` run at once. If no two of them could run at the same time, nothing happens, and the `dvc repro` that
    follows does everything.

    Raises:
        PipelineError: a `foreach` or a `matrix` is over anything but families; or a stage failed, and all others that
            ran have ended.
    """
    found = find_stages(stages, load_params(folder / PARAMS))
    stale = with_followers([name for name, stage in stages.items() if stage.has_changed], found.after)
    after = {stage: stale.intersection(found.after[stage], found.steps) for stage in found.steps if stage in stale}
    steps = {stage: found.steps[stage] for stage in after}
    if length(after, steps, jobs) >= sum(steps.values()):
        return
    if not stale.isdisjoint(found.needs):
        status = guard.run([*REPRO, *found.needs], folder, environment())
        if status:
            raise PipelineError(f"{PIPELINE}: a stage that the families need failed (exit status {status}); the reason "
                                "is above")
    reproduce_together(folder, after, steps, shares(jobs))


def ask_dvc(folder: Path) -> dict[str, Stage]:
    """The stages of dvc.yaml, once those of a killed run have ended."""
    _wait_for_others(folder)
    return read_stages(folder)


def _wait_for_others(folder: Path) -> None:
    """Wait for DVC's processes of a killed run: their guards are about to end them."""
    patience = time.monotonic() + guard.PATIENCE
    while any(map(is_alive, _processes(folder))):
        if time.monotonic() > patience:
            return  # another run that still works, which DVC will report
        time.sleep(0.1)


def _processes(folder: Path) -> set[int]:
    """The ids of the processes that write outputs of the dvc.yaml in a folder, as DVC's rwlock has them.

    DVC keeps that file in the main folder, where this process runs; it is absent until a stage has run.
    """
    try:
        writers = json.loads(Path(".dvc/tmp/rwlock").read_text(encoding="utf-8")).get("write", {})
    except (FileNotFoundError, ValueError):  # ValueError: DVC is writing it
        return set()
    return {writer["pid"] for output, writer in writers.items()
            if writer and _pipeline_of(Path(output)) == folder.resolve()}


def _pipeline_of(output: Path) -> Path | None:
    """The folder of the dvc.yaml that an output belongs to: the nearest one above."""
    return next((parent for parent in output.parents if (parent / PIPELINE).exists()), None)


def with_followers(stages: Collection[str], after: After) -> frozenset[str]:
    """Stages and all that depend on them, directly or not."""
    found = frozenset(stages)
    while more := {stage for stage in after if stage not in found and not found.isdisjoint(after[stage])}:
        found |= more
    return found


def shares(jobs: int) -> list[dict[str, str]]:
    """The environment of each concurrent stage, with its share of the cores and of the GPUs.

    The share of the cores is for evaluations, whose outputs do not depend on it; a training has threads of its own. The
    user's own OMP_NUM_THREADS and choice of GPUs are kept.
    """
    import torch

    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, torch.get_num_threads() // jobs))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    devices = visible.split(",") if torch.cuda.is_available() else []
    found = [{"OMP_NUM_THREADS": threads} for _ in range(jobs)]
    for number, share in enumerate(found if devices else ()):
        share["CUDA_VISIBLE_DEVICES"] = ",".join(devices[number::jobs] or [devices[number % len(devices)]])
    return found


def reproduce_together(folder: Path, after: After, steps: dict[str, int], free: list[dict[str, str]]) -> None:
    """Run `dvc repro --single-item` on stages, several at once; each line of their output begins with a stage's name.

    Args:
        folder: to run in.
        after: per stage, the others that must have ended before.
        steps: cost of each stage.
        free: an environment for each concurrent stage.

    Raises:
        PipelineError: a stage failed, and all others that ran have ended.
    """
    waiting, failed, output = list(after), list[str](), Output()
    running: dict[str, tuple[subprocess.Popen[str], dict[str, str]]] = {}
    try:
        while True:
            while free and not failed and (stage := choose(waiting, running, after, steps)) is not None:
                waiting.remove(stage)
                share = free.pop(0)
                running[stage] = _start(folder, stage, share, output), share
            if not running:
                break
            stage, line = next_line(output)
            if line is not None:
                print(f"{stage}: {line}", end="", flush=True)
                continue
            process, share = running.pop(stage)
            free.append(share)
            if process.wait():
                failed.append(stage)
                others = f", and what still runs is finished first: {', '.join(running)}" if running else ""
                print(f"{stage}: failed; nothing new starts{others}", flush=True)
            guard.stop([process])
    finally:
        guard.stop([process for process, _ in running.values()])
    if failed:
        names = "its name" if len(failed) == 1 else "their names"
        raise PipelineError(f"{PIPELINE}: {', '.join(failed)} failed; see the lines above that begin with {names}. The "
                            "same command continues from here")


def next_line(output: Output) -> tuple[str, str | None]:
    """The next of the lines, once there is one.

    It waits one second at a time: Python runs signal handlers between its own instructions, so one whose signal arrives
    just before a wait, or in another thread, runs only after it, and a stage can be silent for hours.
    """
    while True:
        with suppress(Empty):
            return output.get(timeout=1)


def _start(folder: Path, stage: str, share: dict[str, str], output: Output) -> subprocess.Popen[str]:
    process = guard.start([*REPRO, "--single-item", stage], folder,
                          {**environment(), **share}, subprocess.PIPE)
    threading.Thread(target=_read, args=(stage, process, output), daemon=True).start()
    return process


def _read(stage: str, process: subprocess.Popen[str], output: Output) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            output.put((stage, line if line.endswith("\n") else line + "\n"))
    output.put((stage, None))


@contextmanager
def ending_like_control_c() -> Iterator[None]:
    """End this process on `kill` or when its terminal closes as on control-C: after the stages have ended."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler == signal.SIG_DFL:  # not under nohup, which ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: set by other code than Python's, which Python cannot restore
                signal.signal(number, handler)
