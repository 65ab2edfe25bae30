"""A wheel from the user's package index, for the data files that it carries; it is never installed."""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import PipelineError

_REMEDY = "set version and sha256 in params.yaml to those of another release"
_RETRIES = "2"  # of a connection that fails, where the user sets no other number: pip's own 5 can take minutes


@contextmanager
def fetch_wheel(package: str, version: str, expected: str, key: str) -> Iterator[Path]:
    """Download a wheel, check its hash, and remove it at the end.

    Args:
        package: its name, the word before the first dash of the wheel's name.
        version: exact.
        expected: SHA-256, 64 hexadecimal digits.
        key: of params.yaml that holds it, for the error.

    Raises:
        PipelineError: pip cannot get the wheel, it has another hash, or there is no room for it.
    """
    try:
        temporary = tempfile.TemporaryDirectory()
    except OSError as error:
        raise PipelineError(f"no folder to download {package} to ({error}); free some space or set TMPDIR") from None
    with temporary as folder:
        wheel = download_wheel(package, version, Path(folder))
        check_hash(wheel, expected, key)
        yield wheel


def download_wheel(package: str, version: str, folder: Path) -> Path:
    """Fetch a wheel with pip, which honours the user's proxy, mirror and `PIP_FIND_LINKS`, into a folder.

    Neither the Python nor the dependencies that the package asks for are needed to read its files.

    Raises:
        PipelineError: pip found no such wheel, or could not write it.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               "--no-input", "--no-deps", "--ignore-requires-python", "--only-binary=:all:",
               "--dest", str(folder), f"{package}=={version}"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False,
                              env={"PIP_RETRIES": _RETRIES, **os.environ})
    wheels = sorted(folder.glob("*.whl"))
    if finished.returncode or not wheels:
        raise PipelineError(f"pip could not download {package}=={version} ({_reason(finished.stderr)}); check the "
                            "network, PIP_INDEX_URL and the free space of TMPDIR, or put the wheel into a folder and "
                            "set PIP_FIND_LINKS to it")
    return wheels[0]


def _reason(messages: str) -> str:
    """Pip's last word; but what broke the connection, where something did, as pip then says that nothing was found."""
    broken = re.findall(r"connection broken by '(.*)': /", messages)
    lines = broken or messages.strip().splitlines() or ["pip gave no reason"]
    return lines[-1].rpartition(">: ")[2].removesuffix("')")


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


@contextmanager
def open_wheel(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """Open a wheel for reading.

    Raises:
        PipelineError: it is no archive.
    """
    try:
        archive = zipfile.ZipFile(wheel)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:  # names that are not UTF-8; new versions
        raise PipelineError(f"{wheel.name}: not a wheel ({error}); {_REMEDY}") from None
    with archive:
        yield archive


def read_member(archive: zipfile.ZipFile, name: str) -> str:
    """Return the text of a wheel's member.

    Raises:
        PipelineError: it cannot be unpacked, or is not UTF-8.
    """
    try:
        return archive.read(name).decode()
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, UnicodeDecodeError) as error:
        raise unusable(archive, name, error) from None


def unusable(archive: zipfile.ZipFile, name: str, error: Exception) -> PipelineError:
    """What to raise where a wheel's member does not hold what it should."""
    return PipelineError(f"{Path(archive.filename or '').name}: {name} cannot be read ({error}); {_REMEDY}")
