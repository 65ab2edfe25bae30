"""A disk that fills while a stage writes: one line, the old output stays, and with room it succeeds."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.faults.workshop import Ended, Outcome, Workshop, call, copy_run, differing, digests

STAGES = {
    "corpus": ("corpus", "data/corpus"),
    "bpe": ("bpe", "data/bpe"),
    "fit": ("fit --family teacher --trainer.accelerator cpu --in-place", "checkpoints/teacher"),
    "distill": ("distill --devices 1 --accelerator cpu", "data/distilled"),
    "align": ("align", "data/alignment"),
    "counts": ("counts", "data/counts"),
    "test": ("test --family ar --trainer.accelerator cpu --in-place", "data/hypotheses/ar"),
    "peers": ("peers", "data/peers"),
    "speed": ("speed", "reports/speed.json"),
    "analyse": ("analyse", "reports/analyses"),
    "report": ("report", "data/page"),
    "models": ("models", "data/models"),
    "export": ("export folder --family ar --output data/export", "data/export"),
    "translate": ("translate --device cpu --family ar --input in.txt --output out.txt", "out.txt"),
}
"""The command of each stage, with its options, and what it writes."""
_PAGE = 4096
"""Bytes, of which a file system in memory has a whole number."""


def full(workshop: Workshop, tries: int) -> list[Outcome]:
    """Run each stage in a file system with room for a part of its output only."""
    found = []
    for stage, (command, output) in STAGES.items():
        with tmpfs(workshop.folder / "disk") as folder:
            copy_run(workshop.run, folder)
            free(folder, 1 << 30)
            ended = call(folder, command)
            if ended.status:
                found.append(Outcome(f"{stage}, undisturbed", False, ended.last))
                continue
            before, size = digests(folder), _size(folder / output)
            for _ in range(tries):
                room = int(size * workshop.random.uniform(0.0, 0.9)) // _PAGE * _PAGE
                free(folder, room)
                ended = call(folder, command)
                kept = differing(before, digests(folder))
                free(folder, 1 << 30)
                again = call(folder, command)
                found.append(_judge(f"{stage}, {room:,} bytes free", ended, kept, again,
                                    differing(before, digests(folder)), _hidden(folder)))
    return found


def _judge(what: str, ended: Ended, kept: list[str], again: Ended, different: list[str], hidden: list[str]) -> Outcome:
    """As promised: one line, no output changed but a report that was removed first, and nothing hidden remains."""
    if ended.status == 0:
        return Outcome(what, not different, "there was room enough")
    changed = [path for path in kept if not path.startswith(("reports/", "data/hypotheses/"))]
    faults = [*(["not one line"] if not ended.is_one_line else []), *(f"{path} changed" for path in changed[:1]),
              *(["failed again with room: " + again.last] if again.status else []),
              *(f"{path} differs afterwards" for path in different[:1]), *(f"{path} remains" for path in hidden[:1])]
    return Outcome(what, not faults, "; ".join([ended.last, *faults]))


@contextmanager
def tmpfs(folder: Path) -> Iterator[Path]:
    """A file system in memory, mounted on a folder.

    Raises:
        PermissionError: this user cannot mount.
    """
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "faults", str(folder)], capture_output=True,
                             text=True, check=False)
    if mounted.returncode:
        raise PermissionError(f"a tmpfs cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def free(folder: Path, room: int) -> None:
    """Leave a file system in memory so many bytes, a whole number of pages."""
    found = os.statvfs(folder)
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    subprocess.run(["mount", "-o", f"remount,size={used + room}", str(folder)], check=True)


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in [path, *path.rglob("*")] if one.is_file())


def _hidden(folder: Path) -> list[str]:
    """Hidden files that a write has left; unfinished work may stay."""
    return [path.relative_to(folder).as_posix() for path in folder.rglob(".*.aside")]
