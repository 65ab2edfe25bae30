"""Two runs in one place at once, and a translation that is killed in the middle of a large input."""

import os
import signal
import subprocess
import time

from benchmarks.faults.workshop import REPRO, Outcome, Workshop, call, differing, digests


def two(workshop: Workshop) -> list[Outcome]:
    """The second run is refused, the first is not disturbed; a killed translation leaves no output."""
    return [_two_runs(workshop), *_killed_translations(workshop)]


def _two_runs(workshop: Workshop) -> Outcome:
    before = digests(workshop.run)
    subprocess.run(["rm", "-r", str(workshop.run / "data/alignment")], check=True)
    first = subprocess.Popen(REPRO, cwd=workshop.clone, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lock = workshop.run / ".dvc.yaml.lock"
    while not (lock.exists() and lock.read_text()) and first.poll() is None:
        time.sleep(0.02)
    second = subprocess.run(REPRO, cwd=workshop.clone, capture_output=True, text=True, check=False)
    first.wait()
    told = (second.stderr.strip().splitlines() or ["nothing"])[-1]
    changed = differing(before, digests(workshop.run))
    passed = (second.returncode, first.returncode, changed) == (2, 0, []) and f"process {first.pid}" in told
    return Outcome("two `repro` in one folder", passed, f"the second: {told}; the first ended with status "
                   f"{first.returncode}, {len(changed)} files differ")


def _killed_translations(workshop: Workshop, tries: int = 3) -> list[Outcome]:
    found = []
    with workshop.copy() as folder:
        lines = (folder / "data/corpus/train.source").read_text(encoding="utf-8") * 20
        (folder / "in.txt").write_text(lines, encoding="utf-8")
        command = "translate --device cpu --family ar --decoder greedy --input in.txt --output out.txt"
        for _ in range(tries):
            seconds = workshop.random.uniform(0.5, 3.0)
            ended = call(folder, command, killed_after=seconds)
            absent = not (folder / "out.txt").exists()
            found.append(Outcome(f"translate, {lines.count(chr(10)):,} lines, killed after {seconds:.1f} s",
                                 absent and ended.status == -signal.SIGKILL,
                                 "no output" if absent else "a part of the output"))
        (folder / "in.txt").write_text("A dog runs.\n", encoding="utf-8")
        ended = call(folder, command)
        hidden = [name for name in os.listdir(folder) if name.endswith(".aside")]
        found.append(Outcome("translate, once more", ended.status == 0 and not hidden,
                             f"status {ended.status}, {len(hidden)} hidden files remain"))
    return found


