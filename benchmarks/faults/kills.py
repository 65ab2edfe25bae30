"""Signals to processes of whole runs, at moments drawn from the seed, each followed by the same command again.

Moments are spread over all stages: each is a share of the time that a stage takes undisturbed. What is hit is the
runner alone, the process of a stage alone, one of DVC's alone, or all at once.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from benchmarks.faults.workshop import REPRO, ROOT, Outcome, Workshop, differing, digests

_MARK = "FAST_NMT_FAULTS"
"""The environment variable by which the processes of a run are found, whoever their parents are by now."""
_PAUSE = 0.05
_START = "start"
_FIRST = 6.0
"""Seconds within which a run that is hit before its first stage is hit."""
_PER_RUN = 25
"""Signals per run from scratch."""
_PATIENCE = 30.0
"""Seconds between SIGTERM and SIGKILL, as schedulers have it."""


class Signals(NamedTuple):
    """What is sent, and to whom."""

    number: int
    victims: Sequence[str]


KILLED = Signals(signal.SIGKILL, ("runner", "stage", "all", "dvc"))
TERMINATED = Signals(signal.SIGTERM, ("runner", "stage", "all"))
LARGEST = Signals(signal.SIGKILL, ("largest",))


def campaign(workshop: Workshop, signals: Signals, count: int) -> list[Outcome]:
    """Send signals to runs from scratch until `count` have hit, let the last run end, and compare all files."""
    expected, seconds = undisturbed(workshop)
    hit, found = 0, list[Outcome]()
    while hit < count:
        planned = min(count - hit, _PER_RUN)
        stages = [_START, *seconds]
        aims = sorted((workshop.random.randrange(len(stages)), workshop.random.random()) for _ in range(planned))
        _clear(workshop)
        before = len(found)
        for place, share in aims:
            victim = workshop.random.choice(signals.victims)
            wait = share * seconds.get(stages[place], _FIRST)
            outcome = _disturb(workshop, signals.number, stages[place:] if place else [], wait, victim)
            if outcome is None:  # the run has ended before
                break
            found.append(outcome)
            hit += 1
        run = _Run(workshop)
        status = run.wait()
        changed = differing(expected, digests(workshop.run))
        found.append(Outcome(f"the end, after {len(found) - before} signals", not status and not changed,
                             f"status {status}; {len(expected)} files, {len(changed)} differ {' '.join(changed[:3])}"
                             + (f": {run.last}" if status else "")))
        if status or len(found) == before + 1:
            break
    return found


class _Run:
    """A run of the whole pipeline, all of whose processes can be found."""

    def __init__(self, workshop: Workshop) -> None:
        self._mark, self.last = uuid4().hex, ""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the run
        self.start = time.monotonic()
        self.process = subprocess.Popen(REPRO, cwd=workshop.clone, env={**os.environ, _MARK: self._mark},
                                        stdout=self._log, stderr=self._log, start_new_session=True)

    def processes(self) -> dict[int, list[str]]:
        """The arguments of all processes by their ids."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"{_MARK}={self._mark}".encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")[:-1]
            except OSError:  # it has ended
                pass
        return {process: arguments for process, arguments in found.items() if arguments}  # zombies have none

    def stages(self) -> dict[int, str]:
        """The stages that run, by the ids of their processes."""
        return {process: name for process, arguments in self.processes().items() if (name := _stage(arguments))}

    def wait(self) -> int:
        """Wait for the end, keep the last line of the output, and return the exit status."""
        status = self.process.wait()
        if not self._log.closed:
            self._log.seek(0)
            lines = [line for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
            self.last = (lines or ["nothing"])[-1][:300]
            self._log.close()
        return status


def _stage(arguments: Sequence[str]) -> str:
    """The name of the stage that a process runs; empty if it runs none."""
    if list(arguments[1:3]) != ["-m", "pipeline"] or arguments[3:4] in ([], ["repro"]):
        return ""
    return " ".join(arguments[3:6:2])


def undisturbed(workshop: Workshop) -> tuple[dict[str, str], dict[str, float]]:
    """Digests of all files of an undisturbed run, made where there is none, and the seconds of its stages, in order."""
    kept = workshop.folder / "undisturbed.json"
    if kept.exists():
        found, seconds = json.loads(kept.read_text(encoding="utf-8"))
        return found, seconds
    if not workshop.clone.exists():
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(workshop.clone)], check=True)
    _clear(workshop)
    run = _Run(workshop)
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    while run.process.poll() is None:
        now = time.monotonic()
        for stage in run.stages().values():
            began.setdefault(stage, now)
            ended[stage] = now
        time.sleep(_PAUSE)
    if run.wait():
        raise RuntimeError(f"the undisturbed run failed: {run.last}")
    found, seconds = digests(workshop.run), {stage: round(ended[stage] - began[stage], 2) for stage in began}
    kept.write_text(json.dumps([found, seconds]), encoding="utf-8")
    return found, seconds


def _clear(workshop: Workshop) -> None:
    """Remove all that a run has made, also what DVC remembers."""
    subprocess.run(["git", "clean", "-qdffx"], cwd=workshop.clone, check=True)
    subprocess.run(["git", "checkout", "--quiet", "."], cwd=workshop.clone, check=True)


def _disturb(workshop: Workshop, number: int, stages: Sequence[str], seconds: float, victim: str) -> Outcome | None:
    """Start a run, send a signal some seconds after the beginning of any of these stages, and wait for what that ends.

    Args:
        workshop: of the run.
        number: of the signal.
        stages: one to wait for and those after it, if it should be complete; empty: the run's own beginning counts.
        seconds: to wait after the beginning.
        victim: the kind of process.

    Returns:
        What happened; None if the run ended before the stage began.
    """
    run = _Run(workshop)
    while stages and not set(stages).intersection(run.stages().values()):
        if run.process.poll() is not None:
            return None if run.wait() == 0 else Outcome(f"before {stages[0]}", False, f"failed by itself: {run.last}")
        time.sleep(_PAUSE)
    try:
        run.process.wait(seconds)
        run.wait()
        return None
    except subprocess.TimeoutExpired:
        pass
    running, moment = sorted(run.stages().values()), time.monotonic() - run.start
    victims = _victims(run, victim)
    for process in victims:
        _send(process, number)
    sent = time.monotonic()
    if number == signal.SIGKILL and victim == "all":
        run.wait()
    while run.process.poll() is None and time.monotonic() - sent < _PATIENCE:
        time.sleep(_PAUSE)
    late = run.process.poll() is None
    if late and number == signal.SIGTERM:
        for process in victims:
            _send(process, signal.SIGKILL)
    status, after = run.wait(), time.monotonic() - sent
    # The runner itself, which is hit where no process of the wanted kind runs, cannot report that it is killed.
    told = (run.process.pid in victims and number == signal.SIGKILL) or run.last != "nothing"
    return Outcome(f"{moment:.1f} s, {', '.join(running) or 'between stages'}: {signal.Signals(number).name} to "
                   f"{victim} ({len(victims)} processes)", told and not (late and number == signal.SIGTERM),
                   f"ended after {after:.1f} s with status {status}: {run.last}")


def _victims(run: _Run, victim: str) -> list[int]:
    """The processes to hit; the runner where no such process runs at the moment."""
    processes = run.processes()
    stages = [process for process, arguments in processes.items() if _stage(arguments)]
    dvc = [process for process, arguments in processes.items() if arguments[1:3] == ["-m", "dvc"]]
    chosen: Mapping[str, list[int]] = {
        "runner": [run.process.pid], "all": list(processes), "stage": stages[:1], "dvc": dvc[:1],
        "largest": sorted(stages, key=_resident)[-1:]}
    return chosen[victim] or [run.process.pid]


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0


def _send(process: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
