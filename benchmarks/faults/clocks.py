"""A clock that jumps by a day between the start of a training or distillation and its continuation."""

import os
import shutil
import time
from collections.abc import Callable
from functools import partial

from benchmarks.faults.flips import keep_work
from benchmarks.faults.workshop import Outcome, Workshop, call

_DAY = 86_400.0


def jumps(workshop: Workshop) -> list[Outcome]:
    """Continue unfinished work under another time, and with files of another time."""
    found = []
    for command, output in (
            ("fit --family teacher --trainer.accelerator cpu --in-place", "checkpoints/teacher/weights.safetensors"),
            ("distill --devices 1 --accelerator cpu", "data/distilled/train.pairs")):
        with workshop.copy() as folder:
            work, kept = folder / "checkpoints/.work", folder / "kept"
            ended = call(folder, command, before=partial(keep_work, work, kept))
            expected = (folder / output).read_bytes()
            for name, seconds in (("forward", _DAY), ("back", -_DAY)):
                shutil.rmtree(work, ignore_errors=True)
                shutil.copytree(kept, work)
                for path in work.rglob("*"):  # as if the clock had jumped the other way before
                    os.utime(path, (time.time() - 2 * seconds,) * 2)
                ended = call(folder, command, before=_jump(seconds))
                same = ended.status == 0 and (folder / output).read_bytes() == expected
                continued = "continuing from" in ended.error or command.startswith("distill")
                found.append(Outcome(f"{command.split()[0]}, a day {name}", same and continued, "continued; the same "
                                     "bytes" if same and continued else f"status {ended.status}: {ended.last}"))
    return found


def _jump(seconds: float) -> Callable[[], None]:
    def jump(now: Callable[[], float] = time.time, nanoseconds: Callable[[], int] = time.time_ns) -> None:
        time.time = lambda: now() + seconds
        time.time_ns = lambda: nanoseconds() + int(seconds) * 10**9
    return jump
