"""A wheel from the user's package index, for the data files that it carries; it is never installed."""

import hashlib
import subprocess
import sys
from pathlib import Path

from pipeline.errors import PipelineError


def download_wheel(package: str, version: str, folder: Path) -> Path:
    """Fetch a wheel with pip, which honours the user's proxy, mirror and `PIP_FIND_LINKS`.

    Neither the Python nor the dependencies that the package asks for are needed to read its files.

    Args:
        package: its name, the word before the first dash of the wheel's name.
        version: exact.
        folder: where to put it.

    Raises:
        PipelineError: pip found no such wheel.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               "--no-input", "--no-deps", "--ignore-requires-python", "--only-binary=:all:",
               "--dest", str(folder), f"{package}=={version}"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if finished.returncode or not wheels:
        reason = (finished.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise PipelineError(f"pip could not download {package}=={version} ({reason}); check the "
                            "network, or put the wheel into a folder and set PIP_FIND_LINKS to it")
    return wheels[0]


def check_hash(wheel: Path, expected: str, key: str) -> None:
    """Refuse a wheel that is not the expected one.

    Args:
        wheel: file.
        expected: SHA-256, 64 hexadecimal digits.
        key: of params.yaml that holds it, for the error.

    Raises:
        PipelineError: the file has another hash.
    """
    found = sha256(wheel)
    if found != expected.lower():
        raise PipelineError(f"{wheel.name}: sha256 is {found} but params.yaml expects {expected.lower()}; if you trust "
                            f"this file, change {key}")


def sha256(path: Path) -> str:
    """64 hexadecimal digits, in small letters."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
