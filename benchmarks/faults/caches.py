"""Caches that cannot be written: numba's machine code and DVC's objects."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.faults.workshop import PROFILE, REPRO, Outcome, Workshop, differing, digests


def read_only(workshop: Workshop) -> list[Outcome]:
    """Translate without a place for machine code, and reproduce a removed folder without a place for objects."""
    found = []
    with workshop.copy() as folder:
        command = [sys.executable, "-m", "pipeline", "translate", "--device", "cpu", "--family", "ar", "--input",
                   "in.txt", "--output", "out.txt"]
        cache, texts = folder / "cache", []
        cache.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(workshop.clone), "XDG_CACHE_HOME": str(cache)}
        for writable in (False, True):
            with nullcontext() if writable else _mounted_read_only(cache):
                ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True,
                                       check=False)
            texts.append((folder / "out.txt").read_bytes() if ended.returncode == 0 else ended.stderr.encode()[-300:])
        same = texts[0] == texts[1]
        found.append(Outcome("numba's cache", same, "compiled for the process; the same text" if same
                             else texts[0].decode()))
    before = digests(workshop.run)
    # A stage whose result is in DVC's cache is restored; one that must run has nowhere to store its result.
    for what, undo in (("DVC's cache, a folder to restore", None), ("DVC's cache, a stage to run", "--force")):
        with _mounted_read_only(workshop.clone / ".dvc/cache"):
            subprocess.run(["rm", "-r", str(workshop.run / "data/alignment")], check=True)
            ended = subprocess.run([*REPRO, *([undo, "--single-item", "align"] if undo else [])], cwd=workshop.clone,
                                   capture_output=True, text=True, check=False)
        last = [line for line in (ended.stdout + ended.stderr).strip().splitlines() if line.strip()][-1:]
        told = f"status {ended.returncode}: {(last or ['nothing'])[0][:300]}"
        again = subprocess.run(REPRO, cwd=workshop.clone, capture_output=True, text=True, check=False)
        changed = differing(before, digests(workshop.run))
        clean = again.returncode == 0 and not changed and "Traceback" not in ended.stderr
        found.append(Outcome(what, clean, told + (f"; afterwards {changed[0]} differs" if changed else
                                                  f"; afterwards status {again.returncode}, the same bytes")))
    return found


@contextmanager
def _mounted_read_only(folder: Path) -> Iterator[None]:
    """Let nobody write into a folder, not even root, whom no permission binds."""
    for options in (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
        done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if done.returncode:
            raise PermissionError(f"{folder.name} of {PROFILE} cannot be mounted: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
