"""Make the environment `.venv` with given extras of pyproject.toml: `python3 install.py pipeline,peers`.

This is the Makefile's first step; it does nothing if everything is installed. A failure is reported in one line with
its remedy, and the same command continues. Syntax and imports are those of Python 3.6, so that an old Python can report
which version is needed.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

OLDEST, NEWEST = (3, 11), (3, 13)
"""The oldest and the newest Python version that were tried."""
PLATFORMS = ("Linux x86_64", "Linux aarch64", "Darwin arm64")
"""Platforms for which every package has wheels. Only the first one was tried."""
GLIBC = (2, 28)
"""The version that PyTorch's wheels require."""
INSTALLED, DOWNLOADED = {"cpu": 2.0, "cuda": 6.0}, {"cpu": 0.6, "cuda": 3.0}
"""Gigabytes of an environment and of its downloads, per build of PyTorch; measured, and rounded up."""
UNREACHABLE = ("Connection", "Timeout", "timed out", "ProxyError", "SSLError", "NameResolution", "IncompleteRead")
"""Words in pip's messages about a failed network."""
FULL = "No space left on device"
"""Words in pip's message about a full disk, on which it may have written a part of a package."""

ROOT = os.path.dirname(os.path.abspath(__file__))


class Refusal(Exception):
    """An installation is not possible; the message is one line with the reason and the remedy."""


def check_machine(version: tuple, implementation: str, system: str, machine: str, libc: tuple) -> None:
    """Refuse an unsupported machine or Python before anything is installed.

    Args:
        version: of Python.
        implementation: of Python, as `platform` names it.
        system, machine: as `platform` names them.
        libc: name and version of the C library; read on Linux only.

    Raises:
        Refusal: it is not supported.
    """
    if system == "Windows":
        raise Refusal("Windows is not supported; install WSL (wsl --install) and run the same command in it")
    if implementation != "CPython" or not OLDEST <= tuple(version[:2]) <= NEWEST:
        oldest, newest = ("{}.{}".format(*one) for one in (OLDEST, NEWEST))
        raise Refusal(f"{implementation} {version[0]}.{version[1]} is not supported, CPython {oldest} to {newest} is; "
                      f"install one and name it: make PYTHON=python{newest} ...")
    if f"{system} {machine}" not in PLATFORMS:
        raise Refusal(f"{system} on {machine} is not supported: not every package is built for it; use one of "
                      f"{', '.join(PLATFORMS)}")
    numbers = tuple(int(one) for one in re.findall(r"\d+", libc[1])[:2])
    if system == "Linux" and (libc[0] != "glibc" or numbers < GLIBC):
        raise Refusal(f"the C library is {' '.join(libc).strip() or 'unknown'}, PyTorch needs glibc "
                      f"{GLIBC[0]}.{GLIBC[1]} or later; use a Linux distribution of 2019 or later that has it")


def pip_cache(system: str) -> str:
    """The folder in which pip keeps what it downloads; it may be absent.

    Args:
        system: as `platform` names it.
    """
    named = os.environ.get("PIP_CACHE_DIR")
    if named:
        return os.path.join(ROOT, os.path.expanduser(named))
    if system == "Darwin":  # where pip does not read XDG_CACHE_HOME
        return os.path.expanduser("~/Library/Caches/pip")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pip")


def check_space(folder: str, build: str) -> None:
    """Refuse an installation for which the disk is too small.

    Args:
        folder: of the environment.
        build: of PyTorch, cpu or cuda.

    Raises:
        Refusal: with the required and the free space.
    """
    needed: dict = {}  # per file system: one of its folders, and the size
    # Every file is downloaded into the folder for temporary files and kept in pip's cache.
    for place, size in ((folder, INSTALLED[build]), (pip_cache(platform.system()), DOWNLOADED[build]),
                        (tempfile.gettempdir(), DOWNLOADED[build])):
        place = os.path.realpath(place)
        while not os.path.exists(place):  # it will be made, on the file system of the folder above it
            place = os.path.dirname(place)
        one = needed.setdefault(os.stat(place).st_dev, [place, 0.0])
        one[1] += size
    for place, size in needed.values():
        free = shutil.disk_usage(place).free / 1e9
        if free < size:
            other = "" if build == "cpu" else ", or take PyTorch's CPU build, which needs less (make TORCH=cpu ...)"
            raise Refusal(f"{place}: the installation needs {size:.1f} GB, {free:.1f} GB are free; free some{other}")


def explain(output: str, torch: str) -> str:
    """The reason of pip's failure in one line with the remedy.

    Args:
        output: of pip.
        torch: the requirement of PyTorch's CPU build; empty: any build.
    """
    if FULL in output:
        return (f"the disk is full: see df -h {tempfile.gettempdir()} {ROOT}; free some (pip cache purge), "
                "or name a folder with more space in TMPDIR")
    if any(word in output for word in UNREACHABLE):
        return ("the package index cannot be reached; check the network, HTTPS_PROXY and pip's settings (pip config "
                "list), and run the same command again")
    if torch and torch in output:
        return (f"pip knows no {torch}; name PyTorch's own index of CPU builds (pytorch.org shows its address for pip "
                "and CPU): make TORCH=cpu PIP_EXTRA_INDEX_URL=ADDRESS ...")
    reason = (["it gives no reason", *re.findall("^ERROR: (.*)", output, re.MULTILINE)])[-1]
    return f"pip could not install what constraints.txt lists ({reason}); fix that and run the same command again"


class Environment:
    """The folder `.venv` and the notes on its content."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.python = os.path.join(folder, "bin", "python")
        self._notes = os.path.join(folder, ".installed")

    def notes(self) -> dict:
        """The notes that `write` wrote last; empty before the first installation."""
        try:
            with open(self._notes, encoding="utf-8") as file:
                return dict(json.load(file))
        except (OSError, ValueError):
            return {}

    def write(self, notes: dict) -> None:
        """Replace the notes; with `unfinished`, the environment is made anew unless they are replaced once more."""
        with open(self._notes, "w", encoding="utf-8") as file:
            json.dump(notes, file)

    def flaw(self) -> str:
        """Why it cannot be used; empty if it can."""
        notes = self.notes()
        if notes.get("unfinished"):
            return "its installation was interrupted"
        if notes.get("folder", self.folder) != self.folder:
            return f"it was moved from {notes['folder']}, where its programs look for it"
        try:
            version = self.run("-c", "import pip, sys; print('%d.%d' % sys.version_info[:2])").stdout.strip()
        except OSError:
            version = ""
        if not version:
            return "its Python or its pip does not run"
        own = "{}.{}".format(*sys.version_info)
        return "" if version == own else f"its Python is {version}, not {own}"

    def clear(self) -> None:
        """Remove its content; a link to a folder elsewhere is kept.

        Raises:
            Refusal: a part of it cannot be removed.
        """
        folder = os.path.realpath(self.folder)
        os.makedirs(folder, exist_ok=True)
        try:
            # The notes are the last: what an interruption leaves without them would be taken for the user's own.
            for name in sorted(os.listdir(folder), key=os.path.basename(self._notes).__eq__):
                path = os.path.join(folder, name)
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                else:
                    os.remove(path)
        except OSError as error:
            raise Refusal(f"{folder}: cannot be removed ({error.filename}: {error.strerror}); remove it with its "
                          "owner's rights (sudo rm -r ...), and run the same command again") from None

    def make(self) -> None:
        """Make an environment with nothing but Python and pip.

        Raises:
            Refusal: this Python cannot make environments.
        """
        # If this runs in an environment, perhaps in this one, then by the Python that made it.
        python = getattr(sys, "_base_executable", sys.executable)
        done = subprocess.run([python, "-m", "venv", self.folder], check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode:
            raise Refusal(f"{python} cannot make an environment ({' '.join(done.stdout.split())[:200]}); on Debian and "
                          "Ubuntu install its package python3-venv")

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.python, *arguments], cwd=ROOT, check=False, capture_output=True, text=True)

    def pip_install(self, *arguments: str) -> subprocess.CompletedProcess:
        return self.run("-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", *arguments)


def known_extras(names: str) -> set:
    """The extras of a comma-separated list.

    Raises:
        Refusal: pyproject.toml has no extra of a name, which pip would leave out.
    """
    import tomllib  # of the Pythons that `check_machine` lets pass

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        known = tomllib.load(file)["project"]["optional-dependencies"]
    extras = {name.strip() for name in names.split(",")}
    unknown = sorted(extras.difference(known))
    if unknown:
        raise Refusal(f"{unknown[0]!r} is no extra of pyproject.toml; it has {', '.join(known)}")
    return extras


def install(environment: Environment, extras: set, torch: str) -> None:
    """Install what is missing; make the environment if there is none, and anew if it has a flaw and is not the user's.

    Args:
        environment: to install into.
        extras: of pyproject.toml.
        torch: cpu: PyTorch's CPU build; empty: the one that pip chooses.

    Raises:
        Refusal: the environment cannot be made, one of the user's own cannot be used, or the packages cannot be
            installed.
    """
    digest = hashlib.sha256()
    for name in ("constraints.txt", "pyproject.toml"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    new = not (os.path.isdir(environment.folder) and os.listdir(environment.folder))
    notes = environment.notes()
    wanted: dict = {
        "folder": environment.folder, "python": list(sys.version_info[:2]), "files": digest.hexdigest(),
        "extras": sorted(extras.union(notes.get("extras", ()))), "torch": torch or notes.get("torch", ""),
        "made": new or notes.get("made", False)}  # here; else it may hold what only the user can make anew
    if notes == wanted and os.access(environment.python, os.X_OK):  # a link whose Python may have been removed
        return
    with open(os.path.join(ROOT, "constraints.txt"), encoding="utf-8") as file:
        pin = next(line.strip() for line in file if line.startswith("torch=="))
    cpu = f"{pin}+cpu" if wanted["torch"] else ""
    if os.path.exists(environment.folder) and not os.path.isdir(environment.folder):
        raise Refusal(f"{environment.folder}: is not a folder; remove it or move it away, and run the same command "
                      "again")
    flaw = "" if new else environment.flaw()
    if flaw and not wanted["made"]:
        raise Refusal(f"{environment.folder}: was not made by install.py and cannot be used: {flaw}; remove it or move "
                      "it away, and run the same command again")
    if flaw:
        print(f".venv is made anew: {flaw}", flush=True)
    if new or flaw:
        environment.clear()
        check_space(environment.folder, "cpu")
    if wanted["made"]:
        environment.write({**wanted, "unfinished": True})
    if new or flaw:
        environment.make()
        if not cpu and platform.system() == "Linux":
            _check_space_for_cuda(environment, pin)
    extra = ",".join(wanted["extras"])
    print(f"installing {extra} into .venv; the first time this takes minutes", flush=True)
    # Without compilation: modules are compiled when they are first imported, and many never are.
    done = environment.pip_install("--no-compile", "-c", "constraints.txt", "-e", f".[{extra}]", *filter(None, [cpu]))
    if done.returncode:
        if notes and not flaw and FULL not in done.stderr:  # pip has left the environment as it was
            environment.write(notes)
        raise Refusal(explain(done.stderr, cpu))
    environment.write(wanted)


@contextmanager
def alone(folder: str) -> Iterator:
    """Wait until no other installation into the environment of a folder is under way, and keep others waiting.

    Raises:
        Refusal: the folder's file for this purpose cannot be written or locked.
    """
    import fcntl  # Windows has none, and is refused in one line

    path = os.path.join(folder, ".install.lock")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another installation into .venv", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise Refusal(f"{path}: cannot be locked: {error.strerror}; check the permissions of the folder, and that its "
                      "file system has locks") from None
    try:
        yield
    finally:
        os.close(descriptor)  # which ends the lock, as the end of the process does


def _check_space_for_cuda(environment: Environment, pin: str) -> None:
    try:
        check_space(environment.folder, "cuda")
    except Refusal:
        # Only now it matters which build pip chooses, and finding out takes a download.
        report = environment.pip_install("--dry-run", "--no-deps", "--report", "-", pin).stdout
        if '"nvidia-' in report:
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", help="of pyproject.toml, comma-separated")
    parser.add_argument("--torch", choices=("", "cpu"), default="", help="cpu: PyTorch's CPU build, 200 MB, not 3 GB")
    options = parser.parse_args()
    try:
        check_machine(sys.version_info, platform.python_implementation(), platform.system(), platform.machine(),
                      platform.libc_ver())
        extras = known_extras(options.extras)
        with alone(ROOT):
            install(Environment(os.path.join(ROOT, ".venv")), extras, options.torch)
    except Refusal as refusal:
        sys.exit(f"error: {refusal}")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"error: {where}{error.strerror or error}; fix that and run the same command again")
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command continues")


if __name__ == "__main__":
    main()
