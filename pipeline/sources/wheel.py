"""A wheel from the user's package index, for its data files; it is never installed."""

import lzma
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.checks import Checked, Refused
from pipeline.checksums import file_digest
from pipeline.errors import PipelineError

_REMEDY = "set version and sha256 in params.yaml to those of another release"
_LARGEST = 1 << 28
"""Bytes of a member when unpacked; those that are read have less than a hundredth of this."""
_RETRIES = "2"  # of a failing connection, unless the user sets another number: pip's own 5 can take minutes


@dataclass(frozen=True)
class WheelSettings(Checked):
    """Which release of a package to download."""

    version: str
    """Exact, for example `2026.11.0`."""
    sha256: str
    """Expected hash of the wheel, 64 hexadecimal digits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch("[0-9a-fA-F]{64}", self.sha256):
            raise Refused(f"sha256: {self.sha256!r} must be the 64 hexadecimal digits of the wheel's SHA-256")


@contextmanager
def fetch_wheel(package: str, settings: WheelSettings, key: str) -> Iterator[Path]:
    """Download a wheel, check its hash, and remove it at the end.

    `key` of params.yaml has the expected hash; an error names it.

    Raises:
        PipelineError: pip cannot get the wheel, it has another hash, or the disk has no room for it.
    """
    try:
        temporary = tempfile.TemporaryDirectory()
    except OSError as error:
        raise PipelineError(f"no folder to download {package} to ({error}); free some space or set TMPDIR") from None
    with temporary as folder:
        wheel = download_wheel(package, settings.version, Path(folder))
        found, expected = file_digest(wheel), settings.sha256.lower()
        if found != expected:
            raise PipelineError(f"{wheel.name}: sha256 is {found} but params.yaml expects {expected}; if you trust "
                                f"this file, change {key}")
        yield wheel


def download_wheel(package: str, version: str, folder: Path) -> Path:
    """Fetch a wheel with pip, which honours the user's proxy, mirror and `PIP_FIND_LINKS`, into a folder.

    Its files are read without the Python version and the dependencies that the package requires.

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
    """Return pip's last line, or what broke the connection: pip then ends with a line that nothing was found."""
    broken = re.findall(r"connection broken by '(.*)': /", messages)
    lines = broken or messages.strip().splitlines() or ["pip gave no reason"]
    return lines[-1].rpartition(">: ")[2].removesuffix("')")


@contextmanager
def open_wheel(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """Open a wheel for reading.

    Raises:
        PipelineError: it is not an archive.
    """
    try:
        archive = zipfile.ZipFile(wheel)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, struct.error) as error:
        # ValueError: names that are not UTF-8; NotImplementedError: new versions.
        raise PipelineError(f"{wheel.name}: not a wheel ({error}); {_REMEDY}") from None
    with archive:
        yield archive


def read_member(archive: zipfile.ZipFile, name: str) -> str:
    """Return the text of a wheel's member.

    Raises:
        PipelineError: it cannot be unpacked, or is not UTF-8.
    """
    try:
        return read_bytes(archive, name).decode()
    except UnicodeDecodeError as error:
        raise unusable(archive, name, error) from None


def read_bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the content of a wheel's member.

    Raises:
        PipelineError: it cannot be unpacked, or is larger than any that a wheel of texts has.
    """
    try:
        with archive.open(name) as member:  # whose claimed size need not be true
            content = member.read(_LARGEST + 1)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, EOFError, OSError, RuntimeError) as error:
        raise unusable(archive, name, error) from None
    if len(content) > _LARGEST:
        raise unusable(archive, name, f"more than {_LARGEST >> 20} MiB when unpacked")
    return content


def unusable(archive: zipfile.ZipFile, name: str, error: Exception | str) -> PipelineError:
    """Return the error for a member of a wheel that has unexpected content."""
    return PipelineError(f"{Path(archive.filename or '').name}: {name} cannot be read ({error}); {_REMEDY}")
