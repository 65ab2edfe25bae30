"""What all faults share: a finished small run to damage, commands run in forks of this process, and outcomes."""

import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from pipeline.cli import main

ROOT = Path(__file__).parents[2]
PROFILE = "smoke"
REPRO = (sys.executable, "-m", "pipeline", "repro", "--profile", PROFILE)
TIMED = {"analyses.json", "claims.json", "decoders.json", "decoders.md", "quality_speed.png", "speed.json"}
"""Reports that contain times, which differ between two undisturbed runs."""
OUTPUTS = ("data", "checkpoints", "reports")
_LIMIT = 900.0
"""Seconds that a command may take."""


class Outcome(NamedTuple):
    """What one fault did."""

    what: str
    """The file, stage or process."""
    passed: bool
    """Whether it was as docs/reliability.md promises."""
    happened: str
    """The line that was printed, or what was compared; one line."""


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    """Exit status; minus the number of the signal that killed it."""
    error: str
    """Standard error, without paths of the place where it ran."""

    @property
    def is_one_line(self) -> bool:
        """Whether the command refused with one line, as all errors of the pipeline are."""
        return self.status == 2 and sum(line.startswith("error: ") for line in self.error.splitlines()) == 1 \
            and self.last.startswith("error: ") and "Traceback" not in self.error

    @property
    def last(self) -> str:
        """The last line of standard error."""
        return (self.error.strip().splitlines() or ["nothing"])[-1][:400]


def call(folder: Path, command: str, before: Callable[[], object] | None = None,
         environment: Mapping[str, str] | None = None, killed_after: float | None = None) -> Ended:
    """Run a command in a folder, in a fork of this process, which has the libraries: their import takes seconds.

    Args:
        folder: to run in.
        command: its name and options.
        before: called in the fork first.
        environment: further variables.
        killed_after: seconds after which the fork gets SIGKILL; None: never.
    """
    with tempfile.TemporaryFile() as output:
        process = os.fork()
        if not process:
            status = 70
            try:
                os.setpgid(0, 0)
                os.chdir(folder)
                for descriptor in (1, 2):
                    os.dup2(output.fileno(), descriptor)
                sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", closefd=False) for descriptor in (1, 2))
                os.environ.update(environment or {})
                if before is not None:
                    before()
                status = main(command.split())
            except SystemExit as error:
                status = error.code if isinstance(error.code, int) else 1
            except BaseException:
                traceback.print_exc()
            finally:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(status)
        start, found = time.monotonic(), 0
        while not found:
            found, code = os.waitpid(process, os.WNOHANG)
            if not found and time.monotonic() - start > (_LIMIT if killed_after is None else killed_after):
                os.kill(process, signal.SIGKILL)
            time.sleep(0.005)
        output.seek(0)
        text = output.read().decode(errors="replace").replace(f"{folder}/", "")
        return Ended(os.waitstatus_to_exitcode(code), text)


def digests(folder: Path, names: Sequence[str] = OUTPUTS) -> dict[str, str]:
    """The SHA-256 of every file of a run that must be equal in two of them, by its path."""
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for name in names for path in sorted([folder / name, *(folder / name).rglob("*")])
            if path.is_file() and not path.is_symlink() and path.name not in TIMED
            and not {"analyses", "page", ".work"}.intersection(path.relative_to(folder).parts)}


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The paths that differ or are in one of both only."""
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


class Workshop:
    """A clone of this checkout with a finished run of the profile, of which faults get copies."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.clone, self.random = folder, folder / "clone", Random(seed)

    @property
    def run(self) -> Path:
        """The folder of the profile."""
        return self.clone / "profiles" / PROFILE

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """A copy of the finished run to work in: parameters and outputs, without DVC."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name, "run")
            copy_run(self.run, folder)
            yield folder


def copy_run(run: Path, folder: Path) -> None:
    """Copy the parameters and the outputs of a run."""
    for name in OUTPUTS:
        shutil.copytree(run / name, folder / name)
    shutil.copyfile(run / "params.yaml", folder / "params.yaml")
    (folder / "in.txt").write_text("A dog runs.\nTwo men and a woman sit near the water.\n" * 100, encoding="utf-8")
