"""Make the environment `.venv` with the extras of pyproject.toml that are given: `python3 install.py pipeline,peers`.

The Makefile's first step; it does nothing where all is there. Whatever fails is said in one line with its remedy, and
the same command again goes on. Syntax and imports are those of Python 3.6, so that an old one can say what is needed.
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

OLDEST, NEWEST = (3, 11), (3, 13)
"""The Python versions that were tried, and those between them."""
PLATFORMS = ("Linux x86_64", "Linux aarch64", "Darwin arm64")
"""Those that every package has wheels for. The first one was tried, the others not."""
GLIBC = (2, 28)
"""What PyTorch's wheels ask for."""
INSTALLED, DOWNLOADED = {"cpu": 2.0, "cuda": 6.0}, {"cpu": 0.6, "cuda": 3.0}
"""Gigabytes of an environment and of the files that it is made from, by PyTorch's build; measured, and rounded up."""
UNREACHABLE = ("Connection", "Timeout", "timed out", "ProxyError", "SSLError", "NameResolution", "IncompleteRead")
"""Words in what pip says where a network fails."""

ROOT = os.path.dirname(os.path.abspath(__file__))


class Refusal(Exception):
    """What stands in the way, and its remedy, in one line."""


def check_machine(version: tuple, implementation: str, system: str, machine: str, libc: tuple) -> None:
    """Refuse what cannot work, before anything is installed.

    Args:
        version: of Python.
        implementation: of Python, as `platform` names it.
        system, machine: as `platform` names them.
        libc: name and version of the C library; read on Linux only.

    Raises:
        Refusal: with the remedy.
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


def check_space(folder: str, build: str) -> None:
    """Refuse to begin what the disk cannot hold.

    Args:
        folder: of the environment.
        build: of PyTorch, cpu or cuda.

    Raises:
        Refusal: with the space that is needed and that is there.
    """
    needed: dict = {}  # by file system: what for, and how much
    # Every file is downloaded into the folder for temporary files and kept in pip's cache.
    for place, size in ((folder, INSTALLED[build]), (os.path.expanduser("~"), DOWNLOADED[build]),
                        (tempfile.gettempdir(), DOWNLOADED[build])):
        one = needed.setdefault(os.stat(place).st_dev, [place, 0.0])
        one[1] += size
    for place, size in needed.values():
        free = shutil.disk_usage(place).free / 1e9
        if free < size:
            other = "" if build == "cpu" else ", or take PyTorch's CPU build, which needs less (make TORCH=cpu ...)"
            raise Refusal(f"{place}: the installation needs {size:.1f} GB, {free:.1f} GB are free; free some{other}")


def explain(output: str, torch: str) -> str:
    """What pip says of its failure, in one line with the remedy.

    Args:
        output: of pip.
        torch: the requirement of PyTorch's CPU build; empty: any build.
    """
    if "No space left on device" in output:
        return (f"the disk is full: see df -h {tempfile.gettempdir()} {ROOT}; free some (rm -r ~/.cache/pip), "
                "or name a folder with more space in TMPDIR")
    if any(word in output for word in UNREACHABLE):
        return ("the package index cannot be reached; check the network, HTTPS_PROXY and pip's settings (pip config "
                "list), and run the same command again")
    if torch and torch in output:
        return (f"pip knows no {torch}; name PyTorch's own index of CPU builds (pytorch.org shows its address for pip "
                "and CPU): make TORCH=cpu PIP_EXTRA_INDEX_URL=ADDRESS ...")
    reason = (["it gives no reason", *re.findall("^ERROR: (.*)", output, re.MULTILINE)])[-1]
    return f"pip could not install what constraints.txt lists ({reason}); mend that and run the same command again"


class Environment:
    """The folder `.venv`, and what is known of what it holds."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.python = os.path.join(folder, "bin", "python")
        self._notes = os.path.join(folder, ".installed")

    def notes(self) -> dict:
        """What `write` wrote last; empty for an environment of the user's own."""
        try:
            with open(self._notes, encoding="utf-8") as file:
                return dict(json.load(file))
        except (OSError, ValueError):
            return {}

    def write(self, notes: dict) -> None:
        with open(self._notes, "w", encoding="utf-8") as file:
            json.dump(notes, file)

    def flaw(self) -> str:
        """Why it must be made anew; empty: it need not."""
        notes = self.notes()
        if notes.get("unfinished"):
            return "its installation was cut short"
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
        """Remove what is in it; a link to a folder elsewhere stays."""
        folder = os.path.realpath(self.folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

    def make(self) -> None:
        """Python and pip, and nothing else.

        Raises:
            Refusal: this Python cannot make environments.
        """
        # Asked by the Python of an environment, which may be this one: the Python that it was made by.
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


def install(environment: Environment, extras: set, torch: str) -> None:
    """Install what is missing; make the environment where there is none, or none that could be gone on with.

    Args:
        environment: to install into.
        extras: of pyproject.toml.
        torch: cpu: PyTorch's CPU build; empty: the one that pip chooses.

    Raises:
        Refusal: something stands in the way.
    """
    digest = hashlib.sha256()
    for name in ("constraints.txt", "pyproject.toml"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    notes = environment.notes()
    wanted: dict = {
        "folder": environment.folder, "python": list(sys.version_info[:2]), "files": digest.hexdigest(),
        "extras": sorted(extras.union(notes.get("extras", ()))), "torch": torch or notes.get("torch", "")}
    if notes == wanted:
        return
    with open(os.path.join(ROOT, "constraints.txt"), encoding="utf-8") as file:
        pin = next(line.strip() for line in file if line.startswith("torch=="))
    cpu = f"{pin}+cpu" if wanted["torch"] else ""
    new = not (os.path.isdir(environment.folder) and os.listdir(environment.folder))
    flaw = "" if new else environment.flaw()
    if flaw:
        print(f".venv is made anew: {flaw}", flush=True)
    if new or flaw:
        environment.clear()
        check_space(environment.folder, "cpu")
        environment.make()
        if not cpu and platform.system() == "Linux":
            _check_space_for_cuda(environment, pin)
    environment.write({**wanted, "unfinished": True})
    extra = ",".join(wanted["extras"])
    print(f"installing {extra} into .venv; the first time this takes minutes", flush=True)
    # Not compiled: what is never imported need not be, and the first process to import the rest compiles it.
    done = environment.pip_install("--no-compile", "-c", "constraints.txt", "-e", f".[{extra}]", *filter(None, [cpu]))
    if done.returncode:
        raise Refusal(explain(done.stderr, cpu))
    environment.write(wanted)


def _check_space_for_cuda(environment: Environment, pin: str) -> None:
    try:
        check_space(environment.folder, "cuda")
    except Refusal:
        # Only now it matters which build pip takes, and the question costs a download.
        report = environment.pip_install("--dry-run", "--no-deps", "--report", "-", pin).stdout
        if '"nvidia-' in report:
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", help="of pyproject.toml, with commas between them")
    parser.add_argument("--torch", choices=("", "cpu"), default="", help="cpu: PyTorch's CPU build, 200 MB, not 3 GB")
    options = parser.parse_args()
    try:
        check_machine(sys.version_info, platform.python_implementation(), platform.system(), platform.machine(),
                      platform.libc_ver())
        install(Environment(os.path.join(ROOT, ".venv")), set(options.extras.split(",")), options.torch)
    except Refusal as refusal:
        sys.exit(f"error: {refusal}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")


if __name__ == "__main__":
    main()
